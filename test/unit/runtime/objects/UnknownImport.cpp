extern "C" {
int getpid(void);
int callsOutside() { return getpid(); }
}
