// SPDX-License-Identifier: Apache-2.0
// base/binary_tree.hpp: the two binary trees of Sanders, Speck and Traff (Parallel Computing 2009), as arithmetic on
// labels.
//
// Labels are in in-order: odd labels are leaves; a label with lowest set bit b hangs below one with bit 2b. The second
// tree is the first one with labels mirrored (even sizes) or shifted by one (odd sizes), so that who is an inner node
// of one is a leaf of the other (but for one in odd sizes).
#pragma once

namespace hocket {

/// Label 0 is the top with one child; labels 1 .. n-1 form a binary tree in in-order. -1 above the top.
constexpr int binary_tree_parent(int label, int n) {
  if (label == 0) return -1;
  const int bit = label & -label;
  const int up = label + bit, down = label - bit;
  // Exactly one of the two has lowest set bit 2 * bit; the right one may not exist in this world.
  if (((up & -up) == 2 * bit) && up < n) return up;
  return (down & -down) == 2 * bit || down == 0 || up >= n ? down : up;
}

/// The label of member i of n in a tree: even trees as they are, odd ones mirrored or shifted.
constexpr int binary_tree_label(int tree, int i, int n) {
  return tree % 2 == 0 ? i : n % 2 == 0 ? n - 1 - i : (i + 1) % n;
}

}  // namespace hocket
