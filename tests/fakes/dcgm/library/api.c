/* All that is not values: starting, connecting, devices, groups, watches, profiling. */
#include "fakedcgm.h"

void fake_address(struct header *message, u32 length, u32 module, u32 command, u32 version) {
    message->length = length;
    message->module = module;
    message->command = command;
    message->version = version;
}

/* Sends a message as it is and takes the answer in its place. */
#define ASK(connection, message, number, order) \
    (fake_address(&(message).header, sizeof(message), CORE, order, VERSION(message, number)), \
     fake_ask(connection, &(message).header, sizeof(message), sizeof(message)))

API R dcgmInit(void) { return DcgmFieldsInit(); }
API const char *dcgmErrorString(R code) {
    static _Thread_local char text[32];
    snprintf(text, sizeof text, "error %d", code);
    return text;
}
API const char *errorString(R code) { return dcgmErrorString(code); }

struct version_info { u32 version; char text[2 * STRING]; };
API R dcgmVersionInfo(struct version_info *info) {
    if (info->version != VERSION(*info, 2)) return VER_MISMATCH;
    snprintf(info->text, sizeof info->text, "version:%s;arch:x86_64;buildtype:Release", MAJOR >= 4 ? "4.6.0" : "3.3.9");
    return OK;
}
API R dcgmHostengineVersionInfo(handle connection, struct version_info *info) {
    struct { struct header header; struct version_info info; } m = {.info = *info};
    if (info->version != VERSION(*info, 2)) return VER_MISMATCH;
    R r = ASK(connection, m, 1, HOSTENGINE_VERSION);
    *info = m.info;
    return r;
}

struct connect_params { u32 version, persist, timeout_ms, is_path; };
API R dcgmConnect_v2(const char *address, struct connect_params *params, handle *connection) {
    if (!address || !params || !connection) return BADPARAM;
    if (params->version != VERSION(*params, 2)) return VER_MISMATCH;
    R r = fake_connect(address, params->is_path, params->timeout_ms, connection);
    if (r) return r;
    /* It asks who the engine is, and says who it is: with an engine that hangs it waits here. */
    struct { struct header header; struct version_info info; } who = {.info = {VERSION(struct version_info, 2), ""}};
    ASK(*connection, who, 1, HOSTENGINE_VERSION);
    struct { struct header header; int persist, result; } login = {.persist = (int)params->persist};
    r = ASK(*connection, login, 1, CLIENT_LOGIN);
    if (r) fake_disconnect(*connection);
    return r;
}
API R dcgmDisconnect(handle connection) { return fake_disconnect(connection); }

API R dcgmGetAllDevices(handle connection, u32 *ids, int *count) {
    struct { struct header header; int supported; u32 ids[MAX_DEVICES]; int count, result; } m = {.supported = 0};
    R r = ASK(connection, m, 1, GET_ALL_DEVICES);
    if (r) return r;
    *count = m.count;
    memcpy(ids, m.ids, sizeof *ids * m.count);
    return m.result;
}

struct instance { struct entity entity, parent; char uuid[128]; u32 gpu, instance, compute, profile, slices; };
struct hierarchy { u32 version, count; struct instance instances[MAX_DEVICES * 14]; };
API R dcgmGetGpuInstanceHierarchy(handle connection, struct hierarchy *answer) {
    static _Thread_local struct { struct header header; struct hierarchy hierarchy; int result; } m;
    if (answer->version != VERSION(*answer, 2)) return VER_MISMATCH;
    memset(&m, 0, sizeof m);
    m.hierarchy.version = answer->version;
    R r = ASK(connection, m, 1, GPU_INSTANCE_HIERARCHY);
    if (r) return r;
    *answer = m.hierarchy;
    return m.result;
}

API R dcgmGroupCreate(handle connection, int type, const char *name, handle *group) {
    struct { struct header header; int type; char name[1024]; handle group; int result; } m = {.type = type};
    if (!name || !group) return BADPARAM;
    snprintf(m.name, sizeof m.name, "%s", name);
    R r = ASK(connection, m, 1, CREATE_GROUP);
    *group = m.group;
    return r ? r : m.result;
}
API R dcgmGroupAddEntity(handle connection, handle group, u32 kind, u32 id) {
    struct { struct header header; u32 group, kind, id; int result; } m = {.group = (u32)group, .kind = kind, .id = id};
    R r = ASK(connection, m, 1, GROUP_ADD_ENTITY);
    return r ? r : m.result;
}
API R dcgmGroupDestroy(handle connection, handle group) {
    struct { struct header header; u32 group; int result; } m = {.group = (u32)group};
    R r = ASK(connection, m, 1, GROUP_DESTROY);
    return r ? r : m.result;
}
R fake_group_info(handle connection, handle group, struct group_info *info, i64 *now) {
    struct message { struct header header; u32 group; struct group_info info; i64 now; int result; } *m = calloc(1, sizeof *m);
    m->group = (u32)group;
    /* This message is of another version in each major: with the other's engine it fails. */
    R r = ASK(connection, *m, MAJOR >= 4 ? 2 : 1, GROUP_GET_INFO);
    if (!r) r = m->result;
    if (!r) {
        info->count = m->info.count;
        memcpy(info->name, m->info.name, sizeof info->name);
        memcpy(info->entities, m->info.entities, sizeof *info->entities * m->info.count);
        if (now) *now = m->now;
    }
    free(m);
    return r;
}

struct field_group_message { struct header header; struct field_group_info info; int result; };
API R dcgmFieldGroupCreate(handle connection, int count, const u16 *fields, const char *name, handle *group) {
    struct field_group_message m = {.info = {.version = VERSION(m.info, 1)}};
    if (count < 1 || count > MAX_FIELDS || !fields || !name || !group) return BADPARAM;
    m.info.count = count;
    memcpy(m.info.fields, fields, sizeof *fields * count);
    snprintf(m.info.name, sizeof m.info.name, "%s", name);
    R r = ASK(connection, m, 1, FIELDGROUP_CREATE);
    *group = m.info.id;
    return r ? r : m.result;
}
API R dcgmFieldGroupDestroy(handle connection, handle group) {
    struct field_group_message m = {.info = {.version = VERSION(m.info, 1), .id = group}};
    R r = ASK(connection, m, 1, FIELDGROUP_DESTROY);
    return r ? r : m.result;
}
API R dcgmFieldGroupGetInfo(handle connection, struct field_group_info *info) {
    struct field_group_message m = {.info = *info};
    if (info->version != VERSION(*info, 1)) return VER_MISMATCH;
    R r = ASK(connection, m, 1, FIELDGROUP_GET_INFO);
    if (r || m.result) return r ? r : m.result;
    *info = m.info;
    return OK;
}

struct watch { struct header header; u32 group, fields; i64 period; double keep; int most, result; };
static R watch(handle connection, handle group, handle fields, i64 period, double keep, int most, u32 order) {
    struct watch m = {.group = (u32)group, .fields = (u32)fields, .period = period, .keep = keep, .most = most};
    if (!group) return BADPARAM;
    R r = ASK(connection, m, 1, order);
    return r ? r : m.result;
}
API R dcgmWatchFields(handle connection, handle group, handle fields, i64 period, double keep, int most) {
    return watch(connection, group, fields, period, keep, most, WATCH_FIELDS);
}
API R dcgmUnwatchFields(handle connection, handle group, handle fields) {
    return watch(connection, group, fields, 0, 0, 0, UNWATCH_FIELDS);
}
API R dcgmUpdateAllFields(handle connection, int wait) {
    struct { struct header header; int wait, result; } m = {.wait = wait};
    R r = ASK(connection, m, 1, UPDATE_ALL_FIELDS);
    return r ? r : m.result;
}

struct metric_group { u16 major, minor; u32 count; u16 fields[64]; };
struct metric_groups { u32 version, unused, gpu, count; struct metric_group groups[10]; };
API R dcgmProfGetSupportedMetricGroups(handle connection, struct metric_groups *answer) {
    struct { struct header header; struct metric_groups groups; } m = {.groups = *answer};
    if (answer->version != VERSION(*answer, 3)) return VER_MISMATCH;
    R r = ASK(connection, m, 1, METRIC_GROUPS);
    if (!r) *answer = m.groups;
    return r;
}
static R pause_or_resume(handle connection, int paused) {
    struct { struct header header; unsigned char paused; } m = {.paused = (unsigned char)paused};
    fake_address(&m.header, sizeof m, PROFILING, PAUSE_RESUME, VERSION(m, 1));
    R r = fake_ask(connection, &m.header, sizeof m, sizeof m);
    return r == MODULE_NOT_LOADED ? NOT_SUPPORTED : r;
}
API R dcgmProfPause(handle connection) { return pause_or_resume(connection, 1); }
API R dcgmProfResume(handle connection) { return pause_or_resume(connection, 0); }
