"""Go's sort.Slice, a pattern-defeating quicksort that is not stable. Equal keys end up where Go puts them.

Source: zsortfunc.go of Go's sort package. As in Go, keys need no total order: NaN is not less than anything.
"""

from __future__ import annotations

from typing import Any

_INSERTION = 12  # lengths up to this are sorted by insertion, which is stable
_NINTHER = _SHIFTED = 50
_STEPS = 5
_MOST_SWAPS = 12
_MASK = 2**64 - 1


def sorted_indices(keys: list[Any]) -> list[int]:
    """The positions of the keys in the order of Go's sort.Slice. Keys are compared with `<`."""
    sorter = _Sorter(keys)
    sorter.sort(0, len(keys), len(keys).bit_length())
    return sorter.indices


class _Sorter:
    def __init__(self, keys: list[Any]) -> None:
        self.keys = list(keys)
        self.indices = list(range(len(keys)))

    def _swap(self, left: int, right: int) -> None:
        keys, indices = self.keys, self.indices
        keys[left], keys[right] = keys[right], keys[left]
        indices[left], indices[right] = indices[right], indices[left]

    def sort(self, low: int, high: int, limit: int) -> None:
        """Sort the part from low to high. limit: the number of bad pivots before heapsort takes over."""
        balanced = partitioned = True
        while high - low > _INSERTION:
            if limit == 0:
                self._heap_sort(low, high)
                return
            if not balanced:
                self._break_patterns(low, high)
                limit -= 1
            pivot, swaps = self._choose_pivot(low, high)
            if swaps == _MOST_SWAPS:  # it looks descending
                self.keys[low:high] = self.keys[low:high][::-1]
                self.indices[low:high] = self.indices[low:high][::-1]
                pivot = (high - 1) - (pivot - low)
            ascending = swaps in {0, _MOST_SWAPS}
            if balanced and partitioned and ascending and self._insert_some(low, high):
                return
            if low > 0 and not self.keys[low - 1] < self.keys[pivot]:
                low = self._partition_equal(low, high, pivot)
                continue
            middle, partitioned = self._partition(low, high, pivot)
            left, right = middle - low, high - middle
            balanced = min(left, right) >= (high - low) // 8
            if left < right:
                self.sort(low, middle, limit)
                low = middle + 1
            else:
                self.sort(middle + 1, high, limit)
                high = middle
        self._insertion_sort(low, high)

    def _insertion_sort(self, low: int, high: int) -> None:
        keys = self.keys
        for start in range(low + 1, high):
            position = start
            while position > low and keys[position] < keys[position - 1]:
                self._swap(position, position - 1)
                position -= 1

    def _heap_sort(self, low: int, high: int) -> None:
        length = high - low
        for root in range((length - 1) // 2, -1, -1):
            self._sift_down(root, length, low)
        for end in range(length - 1, -1, -1):
            self._swap(low, low + end)
            self._sift_down(0, end, low)

    def _sift_down(self, root: int, length: int, first: int) -> None:
        keys = self.keys
        while (child := 2 * root + 1) < length:
            if child + 1 < length and keys[first + child] < keys[first + child + 1]:
                child += 1
            if not keys[first + root] < keys[first + child]:
                return
            self._swap(first + root, first + child)
            root = child

    def _break_patterns(self, low: int, high: int) -> None:
        length = high - low
        seed, modulus = length, 1 << length.bit_length()
        middle = low + length // 4 * 2
        for index in range(middle - 1, middle + 2):
            seed ^= seed << 13 & _MASK
            seed ^= seed >> 7
            seed ^= seed << 17 & _MASK
            other = seed & (modulus - 1)
            self._swap(index, low + (other - length if other >= length else other))

    def _choose_pivot(self, low: int, high: int) -> tuple[int, int]:
        """A position near the median, and how many of the compared pairs were in the wrong order."""
        quarter = (high - low) // 4
        first, second, third = low + quarter, low + quarter * 2, low + quarter * 3
        swaps = 0
        if high - low >= _NINTHER:
            first, more = self._median(first - 1, first, first + 1)
            second, again = self._median(second - 1, second, second + 1)
            third, last = self._median(third - 1, third, third + 1)
            swaps = more + again + last
        pivot, more = self._median(first, second, third)
        return pivot, swaps + more

    def _median(self, first: int, second: int, third: int) -> tuple[int, int]:
        keys, swaps = self.keys, 0
        if keys[second] < keys[first]:
            first, second, swaps = second, first, swaps + 1
        if keys[third] < keys[second]:
            second, swaps = third, swaps + 1
        if keys[second] < keys[first]:
            second, swaps = first, swaps + 1
        return second, swaps

    def _insert_some(self, low: int, high: int) -> bool:
        """Move a few neighbours that are in the wrong order. Returns whether the part is sorted then."""
        keys, position = self.keys, low + 1
        for _ in range(_STEPS):
            while position < high and not keys[position] < keys[position - 1]:
                position += 1
            if position == high:
                return True
            if high - low < _SHIFTED:
                return False
            self._swap(position, position - 1)
            if position - low >= 2:  # keys precede the pair
                self._shift_left(position - 1)
            if high - position >= 2:  # keys follow it
                self._shift_right(position + 1, high)
        return False

    def _shift_left(self, position: int) -> None:
        while position >= 1 and self.keys[position] < self.keys[position - 1]:
            self._swap(position, position - 1)
            position -= 1

    def _shift_right(self, position: int, high: int) -> None:
        while position < high and self.keys[position] < self.keys[position - 1]:
            self._swap(position, position - 1)
            position += 1

    def _partition(self, low: int, high: int, pivot: int) -> tuple[int, bool]:
        """Move lesser keys before the pivot. Returns its new position, and whether no other key had to move."""
        self._swap(low, pivot)
        keys, key = self.keys, self.keys[low]
        left, right, moved = low + 1, high - 1, False
        while True:
            while left <= right and keys[left] < key:
                left += 1
            while left <= right and not keys[right] < key:
                right -= 1
            if left > right:
                break
            self._swap(left, right)
            left, right, moved = left + 1, right - 1, True
        self._swap(right, low)
        return right, not moved

    def _partition_equal(self, low: int, high: int, pivot: int) -> int:
        self._swap(low, pivot)
        keys, key = self.keys, self.keys[low]
        left, right = low + 1, high - 1
        while True:
            while left <= right and not key < keys[left]:
                left += 1
            while left <= right and key < keys[right]:
                right -= 1
            if left > right:
                return left
            self._swap(left, right)
            left, right = left + 1, right - 1
