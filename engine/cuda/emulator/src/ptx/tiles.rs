//! Tiles of matrices over the lanes of a warp, as the PTX ISA's chapters on `mma` (m16n8k16, bf16) and `ldmatrix`
//! (m8n8, b16) lay them out.

use super::instruction::Lanes;

/// The lower half of a register first.
fn half_of(word: u64, which: usize) -> f32 {
    f32::from_bits(((word >> (16 * which)) as u32) << 16)
}

/// `x y + z`, rounded once.
fn fused(x: f32, y: f32, z: f32) -> f32 {
    // The product of two bf16 has 16 bits: if it is a normal number, it is exact.
    let product = x * y;
    if product.is_normal() { product + z } else { x.mul_add(y, z) }
}

/// `add [16, 8] + left [16, 16] · right [16, 8]`, as registers of a warp.
pub(super) fn multiply_tiles(left: [&Lanes; 4], right: [&Lanes; 2], add: [&Lanes; 4]) -> [Lanes; 4] {
    let mut a = [[0.0; 16]; 16];
    let mut b = [[0.0; 8]; 16];
    for lane in 0..32 {
        let (group, in_group) = (lane >> 2, lane % 4);
        // Element i of a lane is half i % 2 of register i / 2.
        for i in 0..8 {
            let row = if matches!(i, 0 | 1 | 4 | 5) { group } else { group + 8 };
            let column = in_group * 2 + (i & 1) + if i < 4 { 0 } else { 8 };
            a[row][column] = half_of(left[i / 2][lane], i % 2);
        }
        for i in 0..4 {
            let row = in_group * 2 + (i & 1) + if i < 2 { 0 } else { 8 };
            b[row][group] = half_of(right[i / 2][lane], i % 2);
        }
    }
    let mut sums = add.map(|register| *register);
    for lane in 0..32 {
        for (i, sums) in sums.iter_mut().enumerate() {
            let row = if i < 2 { lane >> 2 } else { (lane >> 2) + 8 };
            let column = (lane % 4) * 2 + (i & 1);
            let sum = (0..16).fold(f32::from_bits(sums[lane] as u32), |sum, k| fused(a[row][k], b[k][column], sum));
            sums[lane] = u64::from(if sum.is_nan() { 0x7fff_ffff } else { sum.to_bits() });
        }
    }
    sums
}

/// The registers of four 8 x 8 tiles. Row `r` of tile `t` is `rows[8 t + r]`.
pub(super) fn spread_tiles(rows: &[[u16; 8]; 32], transposed: bool) -> [Lanes; 4] {
    let element = |tile: usize, row: usize, column: usize| {
        let (row, column) = if transposed { (column, row) } else { (row, column) };
        u64::from(rows[tile * 8 + row][column])
    };
    let register = |tile, lane: usize| {
        let (row, column) = (lane / 4, lane % 4 * 2);
        element(tile, row, column) | element(tile, row, column + 1) << 16
    };
    std::array::from_fn(|tile| std::array::from_fn(|lane| register(tile, lane)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::bf16;

    #[test]
    fn each_lane_has_neighbours_of_a_row_or_of_a_column() {
        let rows: [[u16; 8]; 32] = std::array::from_fn(|row| std::array::from_fn(|column| (row * 8 + column) as u16));
        let plain = spread_tiles(&rows, false);
        // Tile 2 begins with 128; lane 6 has row 1, columns 4 and 5.
        assert_eq!(plain[2][6], (128 + 13) << 16 | (128 + 12));
        assert_eq!(spread_tiles(&rows, true)[2][6], (128 + 41) << 16 | (128 + 33));
    }

    #[test]
    fn a_product_with_one_number_is_in_one_place() {
        let zeros = [0; 32];
        let two = u64::from(bf16::from_f32(2.0).to_bits());
        let three = u64::from(bf16::from_f32(3.0).to_bits());
        // left[9][12] is the lower half of register 3 of lane 4 + 2; right[12][5] that of register 1 of lane 20 + 2.
        let (mut left, mut right) = ([zeros; 4], [zeros; 2]);
        left[3][6] = two;
        right[1][22] = three;
        let sums = multiply_tiles(left.each_ref(), right.each_ref(), [&zeros; 4]);
        // The sum at [9][5]: register 3 of lane 4 + 2.
        let mut expected = [zeros; 4];
        expected[3][6] = u64::from(6.0_f32.to_bits());
        assert_eq!(sums, expected);
    }

    #[test]
    fn a_product_too_small_for_a_number_is_rounded_once() {
        let small = f32::from_bits(0x0001_0000 << 7);
        assert_eq!(fused(small, 0.75, f32::from_bits(1)), small.mul_add(0.75, f32::from_bits(1)));
    }
}
