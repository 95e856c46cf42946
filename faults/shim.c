/* Stands between a process and the system, and sees each call that changes files below one folder: a step.

   It writes the steps down, or makes one of them fail: the process is killed before it, it returns an error, or it
   writes half. Reads are counted apart, and can fail too. The steps that were written down are played back and compared with the real files (power_loss.py), so
   that nothing goes by unseen. For Linux on x86-64. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

enum { NOTHING, KILL, ERROR_ONCE, ERROR_FROM, SHORT_WRITE, READ_ONCE, READ_FROM };

static char root[PATH_MAX];
static int kind, at, error_number, steps, reads, trace = -1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define REAL(name) ({ static __typeof__(name) *real; if (!real) real = dlsym(RTLD_NEXT, #name); real; })

int faults_steps(void) { return steps; }
int faults_reads(void) { return reads; }

static int absolute(int folder, const char *path, char *found) {
    if (path[0] == '/') return snprintf(found, PATH_MAX, "%s", path) < PATH_MAX;
    char base[PATH_MAX], link[64];
    if (folder == AT_FDCWD) { if (!getcwd(base, sizeof base)) return 0; }
    else {
        snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        ssize_t size = readlink(link, base, sizeof base - 1);
        if (size < 0) return 0;
        base[size] = 0;
    }
    return snprintf(found, PATH_MAX, "%s/%s", base, path) < PATH_MAX;
}

static int below(const char *path) {
    size_t size = strlen(root);
    return size && !strncmp(path, root, size) && (path[size] == '/' || !path[size]);
}

static int of_path(int folder, const char *path, char *found) { return root[0] && absolute(folder, path, found) && below(found); }

static int of_file(int file, char *found) {
    if (!root[0]) return 0;
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t size = readlink(link, found, PATH_MAX - 1);
    if (size < 0) return 0;
    found[size] = 0;
    return below(found);
}

/* One more step. 0: let it happen; -1: it fails, and errno says how; 1: write half. */
static int step(int writes) {
    int number = ++steps;
    if (kind == KILL && number == at) kill(getpid(), SIGKILL);
    if ((kind == ERROR_ONCE && number == at) || (kind == ERROR_FROM && number >= at)) { errno = error_number; return -1; }
    return kind == SHORT_WRITE && number == at && writes;
}

static void say(const char *what, unsigned long node, const char *path, const char *other, long place, const void *bytes, size_t size) {
    if (trace < 0) return;
    char line[2 * PATH_MAX + 128];
    int length = snprintf(line, sizeof line, "%s\t%lu\t%s\t%s\t%ld\t%zu\n", what, node, path, other, place, size);
    struct iovec parts[2] = {{line, length}, {(void *)bytes, size}};
    if (REAL(writev)(trace, parts, bytes ? 2 : 1) < 0) abort();
}

static unsigned long node_of(int file) { struct stat found; return fstat(file, &found) ? 0 : found.st_ino; }

/* A mark among the steps, such as a change that was acknowledged. */
void faults_mark(const char *word) { pthread_mutex_lock(&lock); say("mark", 0, word, "", 0, NULL, 0); pthread_mutex_unlock(&lock); }

static int opened(int folder, const char *path, int flags, mode_t mode) {
    char full[PATH_MAX];
    int changes = flags & (O_CREAT | O_TRUNC);
    if (!changes || (flags & O_TMPFILE) == O_TMPFILE || !of_path(folder, path, full)) return REAL(openat)(folder, path, flags, mode);
    pthread_mutex_lock(&lock);
    struct stat before;
    int was = !REAL(fstatat)(folder, path, &before, 0), result = -1;
    int is_step = !was || ((flags & O_TRUNC) && before.st_size);
    if (!is_step || step(0) >= 0) {
        result = REAL(openat)(folder, path, flags, mode);
        if (result >= 0 && !was) say("create", node_of(result), full, "", 0, NULL, 0);
        else if (result >= 0 && is_step) say("truncate", node_of(result), full, "", 0, NULL, 0);
    }
    int kept = errno;
    pthread_mutex_unlock(&lock);
    errno = kept;
    return result;
}

#define MODE mode_t mode = 0; if (flags & (O_CREAT | O_TMPFILE)) { va_list more; va_start(more, flags); mode = va_arg(more, mode_t); va_end(more); }
int open(const char *path, int flags, ...) { MODE return opened(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE return opened(AT_FDCWD, path, flags, mode); }
int openat(int folder, const char *path, int flags, ...) { MODE return opened(folder, path, flags, mode); }
int openat64(int folder, const char *path, int flags, ...) { MODE return opened(folder, path, flags, mode); }
int creat(const char *path, mode_t mode) { return opened(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

/* Writes. The place is read afterwards, so that it is right for files that are appended to. */
#define WRITE(size, half, whole) \
    char full[PATH_MAX]; \
    if (!of_file(file, full)) return whole; \
    pthread_mutex_lock(&lock); \
    int told = step(size > 1); \
    ssize_t result = told < 0 ? -1 : told ? half : whole; \
    int kept = errno;

#define WROTE pthread_mutex_unlock(&lock); errno = kept; return result;

ssize_t write(int file, const void *bytes, size_t size) {
    WRITE(size, REAL(write)(file, bytes, size / 2), REAL(write)(file, bytes, size))
    if (result > 0) say("write", node_of(file), full, "", lseek(file, 0, SEEK_CUR) - result, bytes, result);
    WROTE
}

ssize_t pwrite64(int file, const void *bytes, size_t size, off64_t place) {
    WRITE(size, REAL(pwrite64)(file, bytes, size / 2, place), REAL(pwrite64)(file, bytes, size, place))
    if (result > 0) say("write", node_of(file), full, "", place, bytes, result);
    WROTE
}
ssize_t pwrite(int file, const void *bytes, size_t size, off_t place) { return pwrite64(file, bytes, size, place); }

ssize_t writev(int file, const struct iovec *parts, int count) {
    char full[PATH_MAX];
    if (!of_file(file, full)) return REAL(writev)(file, parts, count);
    for (int each = 0; each < count; each++)  /* the first that holds something; callers go on from there */
        if (parts[each].iov_len) return write(file, parts[each].iov_base, parts[each].iov_len);
    return 0;
}

#define SYNC(name) int name(int file) { \
    char full[PATH_MAX]; \
    if (!of_file(file, full)) return REAL(name)(file); \
    pthread_mutex_lock(&lock); \
    int result = step(0) < 0 ? -1 : 0, kept = errno;  /* the page cache holds it: a real flush would only take time */ \
    if (!result) say("sync", node_of(file), full, "", 0, NULL, 0); \
    WROTE }
SYNC(fsync)
SYNC(fdatasync)

int ftruncate64(int file, off64_t size) {
    char full[PATH_MAX];
    if (!of_file(file, full)) return REAL(ftruncate64)(file, size);
    pthread_mutex_lock(&lock);
    int result = step(0) < 0 ? -1 : REAL(ftruncate64)(file, size), kept = errno;
    if (!result) say("truncate", node_of(file), full, "", size, NULL, 0);
    WROTE
}
int ftruncate(int file, off_t size) { return ftruncate64(file, size); }

/* Reads. What is mapped into memory is not seen. */
static int unread(int file) {
    char full[PATH_MAX];
    if (!of_file(file, full)) return 0;
    int number = __atomic_add_fetch(&reads, 1, __ATOMIC_SEQ_CST);
    if (!((kind == READ_ONCE && number == at) || (kind == READ_FROM && number >= at))) return 0;
    errno = error_number;
    return 1;
}

ssize_t read(int file, void *bytes, size_t size) { return unread(file) ? -1 : REAL(read)(file, bytes, size); }
ssize_t readv(int file, const struct iovec *parts, int count) { return unread(file) ? -1 : REAL(readv)(file, parts, count); }
ssize_t pread64(int file, void *bytes, size_t size, off64_t place) { return unread(file) ? -1 : REAL(pread64)(file, bytes, size, place); }
ssize_t pread(int file, void *bytes, size_t size, off_t place) { return pread64(file, bytes, size, place); }

/* Names: rename, link, unlink, mkdir. Rust makes some of these calls without the C library, so that the kernel is asked
   to stop them wherever they come from (SIGSYS), but for the one place here from which they are made in the end. */
long faults_direct(long call, long a, long b, long c, long d, long e);
extern char faults_after[];
__asm__(".text\n.globl faults_direct\n.hidden faults_direct\nfaults_direct:\n"
        "mov %rdi, %rax\nmov %rsi, %rdi\nmov %rdx, %rsi\nmov %rcx, %rdx\nmov %r8, %r10\nmov %r9, %r8\nsyscall\n"
        ".globl faults_after\n.hidden faults_after\nfaults_after:\nret\n");

static unsigned long node_at(const char *path) { struct stat found; return stat(path, &found) ? 0 : found.st_ino; }

/* Two names if there are two; what the kernel would return. */
static long named(const char *what, int one, const char *from, int two, const char *to, long call, const long *a) {
    char full[PATH_MAX], other[PATH_MAX] = "";
    if (!of_path(one, from, full) || (to && !of_path(two, to, other))) return faults_direct(call, a[0], a[1], a[2], a[3], a[4]);
    pthread_mutex_lock(&lock);
    long result = step(0) < 0 ? -error_number : faults_direct(call, a[0], a[1], a[2], a[3], a[4]);
    if (!result) say(what, strcmp(what, "mkdir") ? 0 : node_at(full), full, other, 0, NULL, 0);
    pthread_mutex_unlock(&lock);
    return result;
}

static long trapped(long call, const long *a) {
    const char *first = (const char *)a[0], *second = (const char *)a[1], *fourth = (const char *)a[3];
    switch (call) {
    case SYS_rename: return named("rename", AT_FDCWD, first, AT_FDCWD, second, call, a);
    case SYS_renameat: case SYS_renameat2: return named("rename", a[0], second, a[2], fourth, call, a);
    case SYS_link: return named("link", AT_FDCWD, first, AT_FDCWD, second, call, a);
    case SYS_linkat: return named("link", a[0], second, a[2], fourth, call, a);
    case SYS_unlink: case SYS_rmdir: return named("unlink", AT_FDCWD, first, 0, NULL, call, a);
    case SYS_unlinkat: return named("unlink", a[0], second, 0, NULL, call, a);
    case SYS_mkdir: return named("mkdir", AT_FDCWD, first, 0, NULL, call, a);
    case SYS_mkdirat: return named("mkdir", a[0], second, 0, NULL, call, a);
    }
    return -ENOSYS;
}

static void on_stop(int signal, siginfo_t *info, void *given) {
    (void)signal;
    int kept = errno;
    greg_t *registers = ((ucontext_t *)given)->uc_mcontext.gregs;
    long arguments[] = {registers[REG_RDI], registers[REG_RSI], registers[REG_RDX], registers[REG_R10], registers[REG_R8]};
    registers[REG_RAX] = trapped(info->si_syscall, arguments);
    errno = kept;
}

static const int STOPPED[] = {SYS_rename, SYS_renameat, SYS_renameat2, SYS_link, SYS_linkat, SYS_unlink, SYS_unlinkat, SYS_rmdir, SYS_mkdir, SYS_mkdirat};
enum { COUNT = sizeof STOPPED / sizeof *STOPPED };

/* For this process and its threads to come. */
static void stop_names(void) {
    struct sigaction action = {.sa_sigaction = on_stop, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGSYS, &action, NULL);
    struct sock_filter filter[COUNT + 8];
    int size = 0;
    unsigned long place = (unsigned long)faults_after;
    unsigned pointer = offsetof(struct seccomp_data, instruction_pointer);
    filter[size++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int each = 0; each < COUNT; each++)
        filter[size++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, STOPPED[each], COUNT - each, 0);
    filter[size++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    filter[size++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, pointer);
    filter[size++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)place, 0, 3);
    filter[size++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, pointer + 4);
    filter[size++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)(place >> 32), 0, 1);
    filter[size++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    filter[size++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
    struct sock_fprog program = {size, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) abort();
}

/* Copies within the kernel: refused, whereupon callers read and write. */
ssize_t sendfile64(int file, int from, off64_t *place, size_t size) {
    char full[PATH_MAX];
    if (!of_file(file, full)) return REAL(sendfile64)(file, from, place, size);
    errno = EINVAL;
    return -1;
}
ssize_t sendfile(int file, int from, off_t *place, size_t size) { return sendfile64(file, from, place, size); }

ssize_t copy_file_range(int from, off64_t *a, int file, off64_t *b, size_t size, unsigned flags) {
    char full[PATH_MAX];
    if (!of_file(file, full)) return REAL(copy_file_range)(from, a, file, b, size, flags);
    errno = EXDEV;
    return -1;
}

/* Begin: `where` is the folder, `path` the file for the steps or NULL. */
void faults_arm(const char *where, int what, int step, int number, const char *path) {
    kind = what, at = step, error_number = number, steps = reads = 0;
    if (path) trace = REAL(open)(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    static int stops;
    if (!stops++) stop_names();
    strncpy(root, where, sizeof root - 1);
}
