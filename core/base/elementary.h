// Elementary functions with the same bits on every machine. libm's differ from one to the next, even with one glibc:
// it picks a variant by the processor. These use +, -, *, / and exact functions (fma, frexp, ldexp) alone. The thread
// must round to nearest (DefaultFloatingPoint), and the compiler must not contract.
#pragma once

#include "core/base/double_double.h"

namespace bonsai::elementary {

// The natural logarithm of x > 0, finite. Relative error below 2^-100.
DoubleDouble log(double x);

// e^x for |x| <= 708. Relative error below 2^-94.
DoubleDouble exp(DoubleDouble x);

// Both to less than one unit in the last place.
struct SineCosine {
  double sine, cosine;
};
// For |angle| <= 2^26.
SineCosine sin_cos(DoubleDouble angle);

}  // namespace bonsai::elementary
