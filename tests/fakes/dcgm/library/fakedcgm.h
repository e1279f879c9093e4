/* A stand-in for libdcgm.so.3 and .so.4: the client's side of DCGM, with the functions, structures and messages of the real
 * one (own declarations: names, sizes and numbers are facts, no code is copied). MAJOR is 3 (3.3.9) or 4 (4.6.0), and FIELDS
 * lists {first id, last id, type}. Requests go to an engine over a socket, or through a function that Python gives.
 *
 * FAKEDCGM_TIMEOUT_MS=60000   how long a call waits for its answer, as the real one */
#ifndef FAKEDCGM_H
#define FAKEDCGM_H
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))

typedef int R;
typedef uint16_t u16;
typedef uint32_t u32;
typedef int64_t i64;
typedef uintptr_t handle; /* of a connection, a group or a field group */

enum { OK = 0, BADPARAM = -1, GENERIC_ERROR = -3, NOT_SUPPORTED = -6, UNINITIALIZED = -10, TIMEOUT = -11, VER_MISMATCH = -12,
       UNKNOWN_FIELD = -13, NO_DATA = -14, CONNECTION_NOT_VALID = -21, MODULE_NOT_LOADED = -33, NVML_NOT_LOADED = -56 };
enum { CORE = 0, PROFILING = 8 }; /* modules */
/* Commands of the core module, and one of the profiling module's. */
enum { HOSTENGINE_VERSION = 10, CREATE_GROUP = 11, GROUP_DESTROY = 13, GROUP_GET_INFO = 16,
       UPDATE_ALL_FIELDS = 25, WATCH_FIELDS = 29, UNWATCH_FIELDS = 30, GET_ALL_DEVICES = 34, GROUP_ADD_ENTITY = 35,
       CLIENT_LOGIN = 36, FIELDGROUP_CREATE = 38, FIELDGROUP_DESTROY = 39, FIELDGROUP_GET_INFO = 40,
       GPU_INSTANCE_HIERARCHY = 50, METRIC_GROUPS = 51, LATEST_VALUES_V2 = 52, MULTIPLE_VALUES_V2 = 54, LATEST_VALUES_V4 = 79,
       PAUSE_RESUME = 4 };
#define EMBEDDED 0x7fffffff /* the handle of the engine in this process */

#define MAX_DEVICES 32
#define MAX_FIELDS 128
#define MAX_ENTITIES (MAJOR >= 4 ? 1024 : 64)
#define MESSAGE_MAX (4 * 1024 * 1024)
#define SAMPLES_BUFFER 4186112

#define VERSION(type, number) ((u32)sizeof(type) | (u32)(number) << 24)

struct header { u32 length, module, command, connection, request, version; };
struct entity { u32 group, id; };

#define STRING 256
#define BLOB 4096
union value { i64 i64; double dbl; char str[STRING], blob[BLOB]; };
struct value_v1 { u32 version; u16 field; int16_t type; int status; i64 stamp; union value value; };
struct value_v2 { u32 version, group, entity; u16 field; int16_t type; int status; u32 unused; i64 stamp; union value value; };
struct group_info { u32 version, count; char name[STRING]; struct entity entities[MAX_ENTITIES]; };
struct field_group_info { u32 version, count; handle id; char name[STRING]; u16 fields[MAX_FIELDS]; };

/* connection.c */
R fake_ask(handle connection, struct header *message, size_t length, size_t capacity);
R fake_connect(const char *address, int is_path, u32 timeout_ms, handle *connection);
R fake_disconnect(handle connection);

/* api.c */
void fake_address(struct header *message, u32 length, u32 module, u32 command, u32 version);
R fake_group_info(handle connection, handle group, struct group_info *info, i64 *now);
R dcgmFieldGroupGetInfo(handle connection, struct field_group_info *info);

/* fields.c */
struct field_meta { u16 id; char type; unsigned char size; char tag[48]; int scope, nvml; u32 level; void *format; };
const struct field_meta *DcgmFieldGetById(u16 id);
R DcgmFieldsInit(void);

#endif
