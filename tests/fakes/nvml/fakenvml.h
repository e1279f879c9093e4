/* A stand-in for libnvidia-ml.so.1, written from the public NVML ABI (own declarations, nothing copied).
 *
 * FAKE GPUs whose values follow a closed form, so that a test knows the exact mean over any interval:
 *     value(g, m, t) = mean(m) + amp(m) * sin(2 pi t / P + phase)      t = CLOCK_REALTIME, s
 * Metrics 1-499 have NVML's GPM ids; the fake's own are 500 power (W), 501 temperature (C), 502 SM clock (MHz),
 * 503 memory used (MiB), 504 and 505 GPU and memory utilization (%), 506 memory temperature (C); 507 and 508 stand for
 * the clocks' event and throttle reasons, 509 for nvmlDeviceGetPcieThroughput, 510 for nvmlDeviceGetTotalEnergyConsumption.
 * 480 uncorrected ECC errors, 481 and 482 rows remapped after correctable and uncorrectable errors, 483 a remapping pending,
 * 484 one that failed; 520 stands for the lists of processes, 521 for their utilization, 522 for events, 523 for ECC
 * counters, 524 for remapped rows; with 525 no room for a list of processes is ever enough.
 *
 * Environment, read again by every nvmlInit that finds the library shut down:
 *   FAKENVML_GPUS=4            number of GPUs, at most 16         FAKENVML_ARCH=9   9 Hopper, 8 Ada, 7 Ampere
 *   FAKENVML_NAME, FAKENVML_PERIOD=10 (s), FAKENVML_NODE (in the UUIDs; else SLURMD_NODENAME)
 *   FAKENVML_GPM=1             0: no GPU has GPM                  FAKENVML_NO_GPM=2,3      those GPUs have none
 *   FAKENVML_NO_PERMISSION=1   GPM samples are refused            FAKENVML_MIG=0:2,3:7     instances on these GPUs
 *   FAKENVML_NOT_SUPPORTED=10,504,1082   metrics, and 1000 + field ids, that no GPU has; with 999 calls for fields time
 *                              out. fakenvml_support_no_more(list) changes it while the library is up
 *   FAKENVML_NAN=2,12          GPM metrics that come as NaN       FAKENVML_SET=504:250     constant values
 *   FAKENVML_DELAY_US=0        time spent in nvmlGpmSampleGet and nvmlDeviceGetPowerUsage
 *   FAKENVML_LOST=3:T1:T2      GPU 3 is off the bus between these unix times
 *   FAKENVML_LOST_STICKY=1     a lost GPU comes back only for a library that is initialised anew
 *   FAKENVML_NARROW_PCIE=1     PCIe byte counters of 32 bits
 *   FAKENVML_COMMAND=FILE      while it says "hang [GPU]", "crash [GPU]" or "lose [GPU]", calls (about that GPU) do so
 *   FAKENVML_PROCESSES=FILE    processes on the GPUs: processes.c
 *   FAKENVML_XID=FILE          XIDs, "GPU CODE" each, told to who registered before they were there
 *   FAKENVML_CTL=FILE          double[16 GPUs][512 metrics]; a cell that is not NaN overrides a value, live */
#ifndef FAKENVML_H
#define FAKENVML_H
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))
#define MAX_GPUS 16
#define MAX_INSTANCES 7
#define METRICS 512
#define FIRST_GPU_INSTANCE 7 /* the ids of a GPU's MIG instances begin here */
#define MIB (1024ull * 1024)

typedef int R;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6, TIMEOUT = 10, LOST = 15 };
enum { POWER = 500, TEMPERATURE, SM_CLOCK, MEMORY_USED, UTILIZATION, MEMORY_UTILIZATION, MEMORY_TEMPERATURE };

/* A GPU (instance 0) or one of its MIG instances (1 ...). */
typedef struct device { int gpu, instance; } *D;

struct settings {
    int gpus, gpm, arch, delay_us, no_permission, lost_sticky, narrow_pcie;
    double period;
    const char *name, *command, *no_gpm, *not_supported, *nan, *set, *lost, *mig, *processes, *xid;
};
extern struct settings settings;

/* values.c */
double fake_now(void);
void fake_map_control(void);
int fake_is_metric(int metric);
int fake_lists(const char *list, int number, double *value);     /* is "n,n:value,..." naming it? */
int fake_supports(int metric);
double fake_value(D d, int metric, double t);
double fake_integral(int gpu, int instance, int metric, double t);
double fake_override(int gpu, int metric);                       /* NaN: none */

/* library.c */
R fake_enter(D d);                                               /* OK, or what a call about d answers now */
int fake_is_up(void);                                            /* between nvmlInit and nvmlShutdown */
R fake_refuse(void);                                             /* NOT_SUPPORTED, counted */
int fake_instances(int gpu);
D fake_device(int gpu, int instance);

#endif
