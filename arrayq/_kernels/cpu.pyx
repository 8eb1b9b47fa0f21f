"""What the kernels run on: the processor's instruction sets, and the environment."""

from libc.stdlib cimport getenv

cdef extern from *:
    """
    static int aq_level(void) {
    #if defined(__x86_64__) && defined(__GNUC__)
        __builtin_cpu_init();
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
            && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")
            && __builtin_cpu_supports("avx512cd")) return 4;
        if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")
            && __builtin_cpu_supports("bmi2")) return 3;
        if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt")) return 2;
    #endif
        return 1;
    }
    """
    int aq_level() noexcept


def level() -> int:
    """The highest x86-64 micro-architecture level that the processor and its operating system
    support (2, 3 or 4); 1 where levels mean nothing."""
    return aq_level()


def environment(name: bytes) -> bytes | None:
    """Value of an environment variable as ``os.environ`` has set it, in a tenth of its time."""
    cdef const char* value = getenv(name)
    return None if value == NULL else <bytes>value


cdef class environment_lacks:
    """A question without arguments: whether an environment variable has no value."""

    cdef bytes name

    def __init__(self, bytes name):
        self.name = name

    def __call__(self):
        cdef const char* value = getenv(<const char*>self.name)
        return value == NULL or value[0] == 0
