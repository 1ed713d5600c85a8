// What a loader must handle: constants, tables of pointers, zeroed and
// initialised variables, jump tables, local calls, imported functions.
#include <cmath>
#include <cstring>

namespace {

const double kTable[] = {1.5, -2.25, 4.0};
const char *const kNames[] = {"zero", "one", "two"};
int counter = 40;
int zeroed[1000];

__attribute__((noinline)) int twice(int x) { return 2 * x; }

} // namespace

extern "C" {

double lookup(int i) { return kTable[i]; }

char initial(int i) { return kNames[i][0]; }

int count() {
  zeroed[counter % 7] += 1;
  return ++counter + zeroed[999];
}

int classify(int x) {
  switch (x) {
  case 0:
    return 17;
  case 1:
    return twice(x) + 3;
  case 2:
    return -4;
  case 3:
    return 1234;
  case 4:
    return twice(twice(x));
  case 5:
    return 99;
  default:
    return -1;
  }
}

float softplus(float x) { return log1pf(expf(x)); }

using Unary = float (*)(float);
Unary pointerToExp() { return &expf; }

void copyBytes(char *to, const char *from, unsigned long size) {
  memcpy(to, from, size);
}
}
