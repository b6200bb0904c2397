// Attacks of a hostile program in a sandbox that a shell cannot make. The tests compile it as a static binary.
//
//   probe calls                    system calls that reach beyond a sandbox; a line `NAME ERROR` for each
//   probe first                    attacks on the first process, in the same form
//   probe families                 kinds of sockets, in the same form
//   probe signals                  sends every signal to the first process and its threads
//   probe who                      `UID EUID EFFECTIVE-CAPABILITIES`
//   probe memory MEGABYTES         allocates this much memory
//   probe processes MOST           starts processes until it fails; prints the number and the error
//   probe files DIRECTORY MOST     creates empty files until it fails; prints the number and the error
//   probe terminals MOST           opens terminals until it fails; prints the number and the error, and keeps
//                                  them open until its input ends
//   probe hold SOCKET SECONDS      keeps as many connections open as it can, and replaces closed ones
//   probe speak SOCKET ID TOKEN    connects as the agent of a sandbox: `accepted` or `refused`
//   probe guess SOCKET ID COUNT    the same, with another token each time; prints how many were refused
//   probe listen PORT              greets every client
//   probe connect ADDRESS PORT     prints the response, or the error
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char page[4096] __attribute__((aligned(4096)));

static void say(const char *name, long result) {
    printf("%s %s\n", name, result >= 0 ? "done" : strerrorname_np(errno));
}

// Each in its own process: some would end it, or change it for the others.
static void try(const char *name, long (*attack)(void)) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        alarm(5);
        say(name, attack());
        fflush(stdout);
        _exit(0);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) < 0) {
        say(name, -1);
    } else if (WIFSIGNALED(status)) {
        printf("%s SIG%s\n", name, sigabbrev_np(WTERMSIG(status)));
    }
}

#define CALL(name, ...) \
    static long do_##name(void) { return syscall(SYS_##name, ##__VA_ARGS__); }
#define TRY(name) try(#name, do_##name)

// --- system calls ------------------------------------------------------------------------------

CALL(io_uring_setup, 4, page)
CALL(io_uring_enter, 0, 0, 0, 0, 0, 0)
CALL(io_uring_register, 0, 0, 0, 0)
CALL(userfaultfd, 1 /* of user mode only, which needs no right */)
CALL(add_key, "user", "elevo", "x", 1, -3 /* of the session */)
CALL(request_key, "user", "elevo", 0, 0)
CALL(keyctl, 0 /* the id of a keyring */, -4 /* of the user, whom all sandboxes share */, 1)
CALL(bpf, 0, page, 64)
CALL(perf_event_open, page, 0, -1, -1, 0)
CALL(mount, "none", "/tmp", "tmpfs", 0, "")
CALL(umount2, "/workspace", MNT_DETACH)
CALL(pivot_root, "/workspace", "/workspace")
CALL(chroot, "/workspace")
CALL(open_tree, AT_FDCWD, "/workspace", 1 /* a copy of it */)
CALL(move_mount, -1, "", AT_FDCWD, "/tmp", 4)
CALL(fsopen, "tmpfs", 0)
CALL(fspick, AT_FDCWD, "/dev/pts", 0)
CALL(mount_setattr, AT_FDCWD, "/", 0, page, 32)
CALL(setns, -1, CLONE_NEWNS)
CALL(init_module, page, 1, "")
CALL(finit_module, -1, "", 0)
CALL(delete_module, "ext4", 0)
CALL(kexec_load, 0, 0, 0, 0)
CALL(reboot, 0xfee1dead, 672274793, RB_DISABLE_CAD, 0)
CALL(swapon, "/workspace", 0)
CALL(swapoff, "/workspace")
CALL(acct, "/workspace/acct")
CALL(quotactl, 0, "/dev/vda", 0, page)
CALL(syslog, 3 /* read all */, page, sizeof page)
CALL(sethostname, "other", 5)
CALL(setuid, 0)
CALL(setgid, 0)
CALL(setgroups, 1, page)
CALL(open_by_handle_at, AT_FDCWD, page, O_RDONLY)
CALL(name_to_handle_at, AT_FDCWD, "/workspace", page, page + 512, 0)
CALL(kcmp, 1, getpid(), 0, 0, 0)
CALL(fanotify_init, 0, 0)
CALL(lookup_dcookie, 0, page, 1)
CALL(vhangup)
CALL(personality, 0x0100000 /* old ways to map memory */)
#ifdef SYS_iopl
CALL(iopl, 3)
CALL(ioperm, 0, 1, 1)
#endif

static long do_unshare_user(void) { return unshare(CLONE_NEWUSER); }
static long do_unshare_mounts(void) { return unshare(CLONE_NEWNS); }
static long do_unshare_network(void) { return unshare(CLONE_NEWNET); }
static long do_clone_user(void) {
    long child = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
    if (child == 0) _exit(0);
    return child;
}
static long do_clone3_user(void) {
    uint64_t arguments[11] = {CLONE_NEWUSER, [4] = SIGCHLD};
    long child = syscall(SYS_clone3, arguments, sizeof arguments);
    if (child == 0) _exit(0);
    return child;
}
static long do_settimeofday(void) {
    struct timeval now = {.tv_sec = 1};
    return settimeofday(&now, 0);
}
static long do_mknod_disk(void) { return mknod("/tmp/disk", S_IFBLK | 0600, 254 << 8); }
static long do_mknod_memory(void) { return mknod("/tmp/mem", S_IFCHR | 0600, (1 << 8) | 1); }
// Effective, permitted: all capabilities, as on files of a container's administrator.
static const unsigned char all_capabilities[20] = {1, 0, 0, 2, 255, 255, 255, 255, 0, 0, 0, 0, 255, 1};
static long do_file_capabilities(void) {
    int file = open("/workspace/capable", O_CREAT | O_RDWR, 0700);
    if (file < 0) return -1;
    return syscall(SYS_fsetxattr, file, "security.capability", all_capabilities, sizeof all_capabilities, 0);
}
static long do_capset(void) {
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {{~0u, ~0u, ~0u}, {~0u, ~0u, ~0u}};
    return syscall(SYS_capset, &head, data);
}
// A subvolume of btrfs in the home directory; the limit of the disk would not count it.
static long do_subvolume(void) {
    static struct { int64_t fd; char name[4088]; } arguments = {0, "inner"};
    int home = open("/home/agent", O_RDONLY | O_DIRECTORY);
    return home < 0 ? home : ioctl(home, 0x5000940e, &arguments);
}
static long do_nice(void) { return setpriority(PRIO_PROCESS, 0, -20); }
static long do_more_files(void) {
    struct rlimit limit = {1 << 20, 1 << 20};
    return setrlimit(RLIMIT_NOFILE, &limit);
}

static void calls(void) {
    TRY(io_uring_setup);
    TRY(io_uring_enter);
    TRY(io_uring_register);
    TRY(userfaultfd);
    TRY(add_key);
    TRY(request_key);
    TRY(keyctl);
    TRY(bpf);
    TRY(perf_event_open);
    TRY(mount);
    TRY(umount2);
    TRY(pivot_root);
    TRY(chroot);
    TRY(open_tree);
    TRY(move_mount);
    TRY(fsopen);
    TRY(fspick);
    TRY(mount_setattr);
    TRY(setns);
    TRY(unshare_user);
    TRY(unshare_mounts);
    TRY(unshare_network);
    TRY(clone_user);
    TRY(clone3_user);
    TRY(init_module);
    TRY(finit_module);
    TRY(delete_module);
    TRY(kexec_load);
    TRY(reboot);
    TRY(swapon);
    TRY(swapoff);
    TRY(acct);
    TRY(quotactl);
    TRY(syslog);
    TRY(settimeofday);
    TRY(sethostname);
    TRY(setuid);
    TRY(setgid);
    TRY(setgroups);
    TRY(open_by_handle_at);
    TRY(name_to_handle_at);
    TRY(kcmp);
    TRY(fanotify_init);
    TRY(lookup_dcookie);
    TRY(vhangup);
    TRY(personality);
#ifdef SYS_iopl
    TRY(iopl);
    TRY(ioperm);
#endif
    TRY(mknod_disk);
    TRY(mknod_memory);
    TRY(file_capabilities);
    TRY(capset);
    TRY(subvolume);
    TRY(nice);
    TRY(more_files);
}

// --- the first process -------------------------------------------------------------------------

static long do_attach(void) { return ptrace(PTRACE_ATTACH, 1, 0, 0); }
static long do_seize(void) { return ptrace(PTRACE_SEIZE, 1, 0, 0); }
static long do_read_memory(void) {
    struct iovec here = {page, 1}, there = {(void *)0x400000, 1};
    return process_vm_readv(1, &here, 1, &there, 1, 0);
}
static long do_write_memory(void) {
    struct iovec here = {page, 1}, there = {(void *)0x400000, 1};
    return process_vm_writev(1, &here, 1, &there, 1, 0);
}
static long do_take_file(void) {
    long first = syscall(SYS_pidfd_open, 1, 0);
    return first < 0 ? first : syscall(SYS_pidfd_getfd, first, 0, 0);
}
static long do_limit(void) {
    struct rlimit limit = {0, 0};
    return prlimit(1, RLIMIT_NOFILE, &limit, 0);
}
// The namespaces, files and executable of the first process.
static long read_link(const char *path) { return readlink(path, page, sizeof page); }
static long do_root(void) { return read_link("/proc/1/root"); }
static long do_executable(void) { return read_link("/proc/1/exe"); }
static long do_namespace(void) { return read_link("/proc/1/ns/mnt"); }
static long do_descriptors(void) { return opendir("/proc/1/fd") ? 0 : -1; }
// The file of another user may open for reading, and reading may then fail.
static long read_file(const char *path) {
    int file = open(path, O_RDONLY);
    return file < 0 ? file : read(file, page, sizeof page);
}
static long do_environment(void) { return read_file("/proc/1/environ"); }
static long do_memory(void) { return open("/proc/1/mem", O_RDWR); }
static long do_maps(void) { return read_file("/proc/1/maps"); }
static long do_stack(void) { return read_file("/proc/1/stack"); }
static long do_call(void) { return read_file("/proc/1/syscall"); }

static void first(void) {
    TRY(attach);
    TRY(seize);
    TRY(read_memory);
    TRY(write_memory);
    TRY(take_file);
    TRY(limit);
    TRY(root);
    TRY(executable);
    TRY(namespace);
    TRY(descriptors);
    TRY(environment);
    TRY(memory);
    TRY(maps);
    TRY(stack);
    TRY(call);
}

static void signals(void) {
    for (int number = 1; number <= 64; number++) {
        kill(1, number);
        for (int thread = 1; thread < 8; thread++) syscall(SYS_tgkill, 1, thread, number);
    }
}

// --- sockets -----------------------------------------------------------------------------------

static const struct {
    const char *name;
    int family, type, protocol;
} sockets[] = {
    {"raw", AF_INET, SOCK_RAW, IPPROTO_ICMP}, {"raw6", AF_INET6, SOCK_RAW, IPPROTO_ICMPV6},
    {"packet", AF_PACKET, SOCK_RAW, 0x0300},  {"vsock", AF_VSOCK, SOCK_STREAM, 0},
    {"alg", AF_ALG, SOCK_SEQPACKET, 0},       {"key", AF_KEY, SOCK_RAW, 2},
    {"xdp", AF_XDP, SOCK_RAW, 0},             {"can", AF_CAN, SOCK_RAW, 1},
    {"rds", AF_RDS, SOCK_SEQPACKET, 0},       {"tipc", AF_TIPC, SOCK_SEQPACKET, 0},
    {"unix", AF_UNIX, SOCK_STREAM, 0},        {"tcp", AF_INET, SOCK_STREAM, 0},
    {"udp", AF_INET, SOCK_DGRAM, 0},          {"netlink", AF_NETLINK, SOCK_RAW, 0},
};

static void families(void) {
    for (size_t i = 0; i < sizeof sockets / sizeof *sockets; i++)
        say(sockets[i].name, socket(sockets[i].family, sockets[i].type, sockets[i].protocol));
#ifdef __x86_64__
    // The calls of 32-bit programs, with numbers of their own: io_uring_setup, keyctl, and socketcall,
    // whose arguments no filter can see.
    const char *names[] = {"old_io_uring_setup", "old_keyctl", "old_socketcall"};
    const long numbers[] = {425, 288, 102}, argument[] = {4, 0, 1};
    for (int i = 0; i < 3; i++) {
        fflush(stdout);
        if (fork() == 0) {
            long result;
            __asm__ volatile("int $0x80" : "=a"(result) : "a"(numbers[i]), "b"(argument[i]), "c"(0L), "d"(0L) : "memory");
            errno = result < 0 ? -(int)result : 0;
            say(names[i], result);
            fflush(stdout);
            _exit(0);
        }
        int status;
        wait(&status);
        if (WIFSIGNALED(status)) printf("%s SIG%s\n", names[i], sigabbrev_np(WTERMSIG(status)));
    }
#endif
}

static int reach(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    int one = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (one >= 0 && connect(one, (struct sockaddr *)&address, sizeof address) == 0) return one;
    int error = errno;
    if (one >= 0) close(one);
    errno = error;
    return -1;
}

static void hold(const char *path, int seconds) {
    enum { MOST = 16000 };
    static int held[MOST];
    memset(held, -1, sizeof held);
    long made = 0, most = 0;
    for (time_t end = time(0) + seconds; time(0) < end; usleep(1000)) {
        long now = 0;
        for (int i = 0; i < MOST; i++) {
            if (held[i] >= 0 && recv(held[i], page, sizeof page, MSG_DONTWAIT) == 0) {
                close(held[i]);
                held[i] = -1;
            }
            if (held[i] < 0) {
                held[i] = reach(path);
                if (held[i] < 0) break;
                made++;
            }
            now++;
        }
        if (now > most) most = now;
    }
    printf("made %ld held %ld\n", made, most);
}

// An HTTP/2 request as an agent sends it, byte by byte: settings, then literal headers.
static size_t field(unsigned char *out, const char *name, const char *value) {
    size_t names = strlen(name), values = strlen(value);
    out[0] = 0;
    out[1] = names;
    memcpy(out + 2, name, names);
    out[2 + names] = values;
    memcpy(out + 3 + names, value, values);
    return 3 + names + values;
}

// Returns whether it was accepted; -1 if there was no response.
static int ask_as(const char *path, const char *sandbox, const char *token) {
    unsigned char out[2048] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";
    char bearer[120];
    snprintf(bearer, sizeof bearer, "Bearer %s", token);
    size_t head = 24 + 9, end = head + 9;
    end += field(out + end, ":method", "POST");
    end += field(out + end, ":scheme", "http");
    end += field(out + end, ":path", "/workspace.agent.v1.AgentService/Connect");
    end += field(out + end, ":authority", "agent.invalid");
    end += field(out + end, "content-type", "application/grpc");
    end += field(out + end, "te", "trailers");
    end += field(out + end, "x-sandbox-id", sandbox);
    end += field(out + end, "authorization", bearer);
    size_t size = end - head - 9;
    unsigned char frame[9] = {size >> 16, size >> 8, size, 1, 4, 0, 0, 0, 1};
    memcpy(out + head, frame, 9);
    int one = reach(path), accepted = -1;
    if (one < 0) return -1;
    fcntl(one, F_SETFL, 0);
    struct timeval patience = {.tv_sec = 5};
    setsockopt(one, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    unsigned char in[9];
    if (write(one, out, end) == (ssize_t)end) {
        // Headers that end the stream are a refusal; one that stays open is an agent's.
        while (accepted < 0 && recv(one, in, 9, MSG_WAITALL) == 9) {
            size_t length = in[0] << 16 | in[1] << 8 | in[2];
            if (length > sizeof page || recv(one, page, length, MSG_WAITALL) != (ssize_t)length) break;
            if (in[3] == 1) accepted = (in[4] & 1) == 0;
        }
    }
    close(one);
    return accepted;
}

static void guess(const char *path, const char *sandbox, int count) {
    int refused = 0;
    for (int i = 0; i < count; i++) {
        char token[80];
        sprintf(token, "elvs_%043d", i);
        refused += ask_as(path, sandbox, token) == 0;
    }
    printf("refused %d\n", refused);
}

static struct sockaddr_in internet(const char *address, const char *port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(port))};
    inet_pton(AF_INET, address, &to.sin_addr);
    return to;
}

static void answer(const char *port) {
    struct sockaddr_in at = internet("0.0.0.0", port);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&at, sizeof at) < 0 || listen(listener, 8) < 0) {
        perror("listen");
        exit(1);
    }
    puts("listening");
    fflush(stdout);
    for (;;) {
        int one = accept(listener, 0, 0);
        if (write(one, "hello\n", 6) < 0) perror("write");
        close(one);
    }
}

// gVisor does not support the time-out of a socket for this.
static void late(int signal) {
    (void)signal;
    if (write(1, "ETIMEDOUT\n", 10) < 0) perror("write");
    _exit(0);
}

static void ask(const char *address, const char *port) {
    struct sockaddr_in to = internet(address, port);
    struct timeval patience = {.tv_sec = 2};
    int one = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(one, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    signal(SIGALRM, late);
    alarm(2);
    if (connect(one, (struct sockaddr *)&to, sizeof to) < 0) {
        puts(strerrorname_np(errno));
        return;
    }
    alarm(0);
    // gVisor may say that there is nothing yet where it should wait.
    ssize_t size;
    time_t end = time(0) + 10;
    while ((size = read(one, page, sizeof page - 1)) < 0 && errno == EAGAIN && time(0) < end) usleep(10000);
    printf("%s\n", size > 0 && strncmp(page, "hello", 5) == 0 ? "hello" : "connected");
}

// --- more of everything ------------------------------------------------------------------------

static void who(void) {
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &head, data) < 0) perror("capget");
    printf("%d %d %x%08x\n", getuid(), geteuid(), data[1].effective, data[0].effective);
}

static void memory(int megabytes) {
    for (int i = 0; i < megabytes; i++) {
        char *more = malloc(1 << 20);
        if (!more) {
            puts("ENOMEM");
            return;
        }
        memset(more, 1, 1 << 20);
    }
}

static void processes(int most) {
    int count = 0, error = 0;
    while (count < most) {
        pid_t child = fork();
        if (child < 0) {
            error = errno;
            break;
        }
        if (child == 0) {
            pause();
            _exit(0);
        }
        count++;
    }
    printf("%d %s\n", count, error ? strerrorname_np(error) : "done");
    fflush(stdout);
    signal(SIGTERM, SIG_IGN);
    kill(0, SIGTERM);
}

static void files(const char *directory, long most) {
    long count = 0;
    int error = 0;
    char path[4096];
    for (; count < most; count++) {
        // With a name as long as a name may be, which takes room as well.
        sprintf(path, "%s/%0200ld", directory, count);
        int file = open(path, O_CREAT | O_WRONLY | O_EXCL, 0600);
        if (file < 0) {
            error = errno;
            break;
        }
        close(file);
    }
    printf("%ld %s\n", count, error ? strerrorname_np(error) : "done");
}

static void terminals(int most) {
    int count = 0, error = 0;
    for (; count < most; count++) {
        if (open("/dev/ptmx", O_RDWR | O_NOCTTY) < 0) {
            error = errno;
            break;
        }
    }
    printf("%d %s\n", count, error ? strerrorname_np(error) : "done");
    fflush(stdout);
    while (read(0, page, sizeof page) > 0) {
    }
}

int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "";
#define IS(name, arguments) (strcmp(what, name) == 0 && count == (arguments) + 2)
    if (IS("calls", 0)) calls();
    else if (IS("first", 0)) first();
    else if (IS("families", 0)) families();
    else if (IS("signals", 0)) signals();
    else if (IS("who", 0)) who();
    else if (IS("memory", 1)) memory(atoi(words[2]));
    else if (IS("processes", 1)) processes(atoi(words[2]));
    else if (IS("files", 2)) files(words[2], atol(words[3]));
    else if (IS("terminals", 1)) terminals(atoi(words[2]));
    else if (IS("hold", 2)) hold(words[2], atoi(words[3]));
    else if (IS("speak", 3)) {
        int accepted = ask_as(words[2], words[3], words[4]);
        puts(accepted > 0 ? "accepted" : accepted == 0 ? "refused" : "no answer");
    } else if (IS("guess", 3)) guess(words[2], words[3], atoi(words[4]));
    else if (IS("listen", 1)) answer(words[2]);
    else if (IS("connect", 2)) ask(words[2], words[3]);
    else {
        fputs("probe: see its source for what it can be told\n", stderr);
        return 2;
    }
    return 0;
}
