extern "C" {
thread_local int perThread = 3;
int readsThreadLocal() { return perThread; }
}
