// Numbers that math.cpp and the code that lib/lower generates both compute with.
#pragma once

#include <cstdint>

namespace atenon::math {

// The bits of 2/pi, enough for the largest double, behind 64 that are 0. The last byte holds the first bits, so that
// where a machine stores the low byte first, a word read at any byte is a stretch of bits.
inline constexpr uint8_t two_over_pi[] = {
    0xab, 0x6b, 0x7b, 0xfc, 0x46, 0x30, 0x03, 0x56, 0x08, 0x5d, 0x8d, 0x1f, 0xb1, 0x5f, 0xfb, 0x6b, 0xea, 0x92,
    0x52, 0x8a, 0xf7, 0x39, 0x07, 0x3d, 0x7b, 0xf1, 0xe5, 0xeb, 0xc7, 0xba, 0x27, 0x75, 0x2d, 0xea, 0x5f, 0x9e,
    0x66, 0x3f, 0x46, 0x4f, 0xb7, 0x09, 0xcb, 0x27, 0xcf, 0x7e, 0x36, 0x6d, 0x1f, 0x6d, 0x0a, 0x5a, 0x8b, 0x11,
    0x2f, 0xef, 0x0f, 0x98, 0x05, 0xde, 0xff, 0x97, 0xf8, 0x1f, 0x3b, 0x28, 0xf9, 0xbd, 0x8b, 0x5f, 0x84, 0x9c,
    0xf4, 0x39, 0x53, 0x83, 0x39, 0xd6, 0x91, 0x39, 0x41, 0x7e, 0x5f, 0xb4, 0x26, 0x70, 0x9c, 0xe9, 0x84, 0x44,
    0xbb, 0x2e, 0xf5, 0x35, 0x82, 0xe8, 0x3e, 0xa7, 0x29, 0xb1, 0x1c, 0xeb, 0x1d, 0xfe, 0x1c, 0x92, 0xd1, 0x09,
    0xea, 0x2e, 0x49, 0x06, 0xe0, 0xd2, 0x4d, 0x42, 0x3a, 0x6e, 0x24, 0xb7, 0x61, 0xc5, 0xbb, 0xde, 0xab, 0x63,
    0x51, 0xfe, 0x41, 0x90, 0x43, 0x3c, 0x99, 0x95, 0x62, 0xdb, 0xc0, 0xdd, 0x34, 0xf5, 0xd1, 0x57, 0x27, 0xfc,
    0x29, 0x15, 0x44, 0x4e, 0x6e, 0x83, 0xf9, 0xa2, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
};

// The rational approximations of Sun's fdlibm, s_erf.c and s_atan.c (1993), freely granted; the constant term comes
// first. erf: x pp/qq near 0, erx + pa/qa around 1; erfc: exp(-x^2 - 0.5625 + r/s) / x, of ra and sa up to 1 / 0.35.
namespace fdlibm {
inline constexpr double pp[] = {1.28379167095512558561e-01, -3.25042107247001499370e-01, -2.84817495755985104766e-02,
                                -5.77027029648944159157e-03, -2.37630166566501626084e-05};
inline constexpr double qq[] = {1.0,
                                3.97917223959155352819e-01,
                                6.50222499887672944485e-02,
                                5.08130628187576562776e-03,
                                1.32494738004321644526e-04,
                                -3.96022827877536812320e-06};
inline constexpr double pa[] = {-2.36211856075265944077e-03, 4.14856118683748331666e-01,  -3.72207876035701323847e-01,
                                3.18346619901161753674e-01,  -1.10894694282396677476e-01, 3.54783043256182359371e-02,
                                -2.16637559486879084300e-03};
inline constexpr double qa[] = {1.0,
                                1.06420880400844228286e-01,
                                5.40397917702171048937e-01,
                                7.18286544141962662868e-02,
                                1.26171219808761642112e-01,
                                1.36370839120290507362e-02,
                                1.19844998467991074170e-02};
inline constexpr double ra[] = {-9.86494403484714822705e-03, -6.93858572707181764372e-01, -1.05586262253232909814e+01,
                                -6.23753324503260060396e+01, -1.62396669462573470355e+02, -1.84605092906711035994e+02,
                                -8.12874355063065934246e+01, -9.81432934416914548592e+00};
inline constexpr double sa[] = {1.0,
                                1.96512716674392571292e+01,
                                1.37657754143519042600e+02,
                                4.34565877475229228821e+02,
                                6.45387271733267880336e+02,
                                4.29008140027567833386e+02,
                                1.08635005541779435134e+02,
                                6.57024977031928170135e+00,
                                -6.04244152148580987438e-02};
inline constexpr double rb[] = {-9.86494292470009928597e-03, -7.99283237680523006574e-01, -1.77579549177547519889e+01,
                                -1.60636384855821916062e+02, -6.37566443368389627722e+02, -1.02509513161107724954e+03,
                                -4.83519191608651397019e+02};
inline constexpr double sb[] = {1.0,
                                3.03380607434824582924e+01,
                                3.25792512996573918826e+02,
                                1.53672958608443695994e+03,
                                3.19985821950859553908e+03,
                                2.55305040643316442583e+03,
                                4.74528541206955367215e+02,
                                -2.24409524465858183362e+01};
inline constexpr double erx = 8.45062911510467529297e-01;
inline constexpr double atan_odd[] = {
    3.33333333333329318027e-01, -1.99999999998764832476e-01, 1.42857142725034663711e-01, -1.11111104054623557880e-01,
    9.09088713343650656196e-02, -7.69187620504482999495e-02, 6.66107313738753120669e-02, -5.83357013379057348645e-02,
    4.97687799461593236017e-02, -3.65315727442169155270e-02, 1.62858201153657823623e-02};
// Where atan is known, and around which it is that of a small number: 0, 1/2, 1, 3/2, infinity.
inline constexpr double atan_at[] = {0, 4.63647609000806093515e-01, 7.85398163397448278999e-01,
                                     9.82793723247329054082e-01, 1.570796326794896558};
inline constexpr double atan_at_rest[] = {0, 2.26987774529616870924e-17, 3.06161699786838301793e-17,
                                          1.39033110312309984516e-17, 6.12323399573676603587e-17};
}  // namespace fdlibm

// Lanczos' approximation of gamma, g = 7, nine terms (Godfrey's coefficients).
inline constexpr double lanczos_first = 0.99999999999980993;
inline constexpr double lanczos[] = {676.5203681218851,     -1259.1392167224028,  771.32342877765313,
                                     -176.61502916214059,   12.507343278686905,   -0.13857109526572012,
                                     9.9843695780195716e-6, 1.5056327351493116e-7};
// digamma(x) - log(x) + 1 / 2x, times -x^2, of 1 / x^2.
inline constexpr double digamma_series[] = {1.0 / 12,  -1.0 / 120,     1.0 / 252, -1.0 / 240,
                                            1.0 / 132, -691.0 / 32760, 1.0 / 12};

}  // namespace atenon::math
