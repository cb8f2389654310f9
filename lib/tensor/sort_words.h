// Sorting elements by whole numbers that are in the order of the elements: NaN last, zeros equal.
//
// An element becomes a word: such a number, its key, and its position. Words of elements in their first order are
// sorted by radix, a byte of the key at a time, and equal elements keep their order. Bytes that all keys share, as the
// upper ones of small integers, take no time.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>

namespace atenon {

inline uint32_t key_of(int32_t x) { return static_cast<uint32_t>(x) ^ 0x80000000u; }
inline uint64_t key_of(int64_t x) { return static_cast<uint64_t>(x) ^ 0x8000000000000000u; }
inline uint32_t key_of(float x) {
  if (std::isnan(x)) return ~0u;
  const auto bits = std::bit_cast<uint32_t>(x + 0.0f);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
inline uint64_t key_of(double x) {
  if (std::isnan(x)) return ~uint64_t(0);
  const auto bits = std::bit_cast<uint64_t>(x + 0.0);
  return bits & 0x8000000000000000u ? ~bits : bits | 0x8000000000000000u;
}

using Word = uint64_t;  // a key of 32 bits above its position
struct WideWord {       // of 64 bits
  uint64_t key, position;
  auto operator<=>(const WideWord&) const = default;
};
inline Word word(uint32_t key, int64_t position) { return Word(key) << 32 | static_cast<uint32_t>(position); }
inline WideWord word(uint64_t key, int64_t position) { return {key, static_cast<uint64_t>(position)}; }
inline uint32_t key(Word word) { return static_cast<uint32_t>(word >> 32); }
inline uint64_t key(const WideWord& word) { return word.key; }
inline int64_t position(Word word) { return static_cast<uint32_t>(word); }
inline int64_t position(const WideWord& word) { return static_cast<int64_t>(word.position); }

// Positions are in order, so only keys are looked at. Gives where the result lies: in `words` or in `spare`.
template <class W>
W* sort_words(W* words, W* spare, int64_t n) {
  constexpr int64_t few = 96;  // below, comparing is faster
  if (n < few) {
    std::sort(words, words + n);
    return words;
  }
  constexpr int digits = sizeof(key(W()));
  const auto digit_of = [](const W& word, int digit) { return key(word) >> (8 * digit) & 255; };
  uint32_t counts[digits][256] = {};
  for (int64_t i = 0; i < n; ++i)
    for (int digit = 0; digit < digits; ++digit) ++counts[digit][digit_of(words[i], digit)];
  for (int digit = 0; digit < digits; ++digit) {
    uint32_t* count = counts[digit];
    if (count[digit_of(words[0], digit)] == n) continue;  // all alike
    uint32_t place = 0;
    for (int value = 0; value < 256; ++value) place += std::exchange(count[value], place);
    for (int64_t i = 0; i < n; ++i) spare[count[digit_of(words[i], digit)]++] = words[i];
    std::swap(words, spare);
  }
  return words;
}

}  // namespace atenon
