// Transcendental functions of our own: the same bits on every machine.
//
// The C library's exp, log, sin ... differ between versions and with the CPU's features, and what they compute ends up
// in files (folded constants). These use IEEE + - * / and sqrt only, and this folder is compiled without contraction.
// Each is within a few ulp of double, far inside half an ulp of f32. NaN gives NaN; infinities and the ends of domains
// are as in C.
#pragma once

namespace atenon::math {

double exp(double x);
double exp2(double x);
double expm1(double x);
double log(double x);
double log2(double x);
double log10(double x);
double log1p(double x);
double pow(double x, double y);
double sin(double x);
double cos(double x);
double tan(double x);
double asin(double x);
double acos(double x);
double atan(double x);
double atan2(double y, double x);
double sinh(double x);
double cosh(double x);
double tanh(double x);
double asinh(double x);
double acosh(double x);
double atanh(double x);
double erf(double x);
double erfc(double x);
double lgamma(double x);  // log |gamma(x)|
double digamma(double x);
double sigmoid(double x);

}  // namespace atenon::math
