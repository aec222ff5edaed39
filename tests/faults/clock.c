/* Shifts the clocks of the process that loads it (LD_PRELOAD) by the nanoseconds in the file that FAULT_CLOCK names:
 * two 64-bit integers, for the wall clock and for the clocks that only go forward. They may change at any time. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t none[2];
static volatile int64_t *shifts = none;

__attribute__((constructor)) static void load(void) {
    const char *path = getenv("FAULT_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *mapped = mmap(NULL, 2 * sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED) shifts = mapped;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (failed) return failed;
    int64_t shift = 0;
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) shift = shifts[0];
    if (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE || clock == CLOCK_MONOTONIC_RAW ||
        clock == CLOCK_BOOTTIME) shift = shifts[1];
    int64_t nanoseconds = now->tv_nsec + shift % 1000000000;
    now->tv_sec += shift / 1000000000 + nanoseconds / 1000000000;
    now->tv_nsec = nanoseconds % 1000000000;
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec precise;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *where) {
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (where) *where = precise.tv_sec;
    return precise.tv_sec;
}
