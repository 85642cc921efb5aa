//! The meaning of instructions that compute a register from registers, by the text of the PTX ISA.
//!
//! A predicate is 0 or 1. Subnormal numbers stay, except where an instruction says `.ftz`.

use super::instruction::{InsertFunction, LaneFunction, Lanes};
use half::bf16;
use std::array;
use std::cmp::Ordering;

/// The NaN that arithmetic gives.
const CANONICAL_NAN: u32 = 0x7fff_ffff;
const CANONICAL_DOUBLE_NAN: u64 = 0xfff8_0000_0000_0000;

fn float(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

fn bits(number: f32) -> u64 {
    u64::from(if number.is_nan() { CANONICAL_NAN } else { number.to_bits() })
}

fn double(bits: u64) -> f64 {
    f64::from_bits(bits)
}

fn double_bits(number: f64) -> u64 {
    if number.is_nan() { CANONICAL_DOUBLE_NAN } else { number.to_bits() }
}

/// Subnormal numbers as zeros with their sign.
fn flushed(number: f32) -> f32 {
    if number.is_subnormal() { 0.0_f32.copysign(number) } else { number }
}

/// `max`: a number wins over NaN, and +0 over -0.
fn greater(x: f32, y: f32) -> f32 {
    match (x.is_nan(), y.is_nan()) {
        (true, _) => y,
        (_, true) => x,
        _ if x == 0.0 && y == 0.0 => f32::from_bits(x.to_bits() & y.to_bits()),
        _ => x.max(y),
    }
}

/// As [`greater`].
fn greater_double(x: f64, y: f64) -> f64 {
    match (x.is_nan(), y.is_nan()) {
        (true, _) => y,
        (_, true) => x,
        _ if x == 0.0 && y == 0.0 => f64::from_bits(x.to_bits() & y.to_bits()),
        _ => x.max(y),
    }
}

/// The greatest number that is at most `x y + z`.
fn fused_downwards(x: f32, y: f32, z: f32) -> f32 {
    // The product is exact in f64; the rest of the sum's rounding is found as Knuth's two-sum does.
    let (product, z) = (f64::from(x) * f64::from(y), f64::from(z));
    let sum = product + z;
    let part = sum - product;
    let rest = (product - (sum - part)) + (z - part);
    let nearest = sum as f32;
    if !nearest.is_finite() {
        return x.mul_add(y, z as f32);
    }
    let above = f64::from(nearest) > sum || (f64::from(nearest) == sum && rest < 0.0);
    if above { nearest.next_down() } else { nearest }
}

/// As the GPU's: 0 for divisors above 2^126, as their reciprocals are.
fn divided_approximately(x: f32, y: f32) -> f32 {
    let huge = y.is_finite() && y.abs() > 2.0_f32.powi(126);
    if huge { x * 0.0 } else { x / y }
}

/// Two numbers rounded to the nearest, ties to even; the first goes to the upper half. NaN is the canonical one.
fn rounded_pair(upper: f32, lower: f32) -> u64 {
    let half = |number: f32| u64::from(if number.is_nan() { 0x7fff } else { bf16::from_f32(number).to_bits() });
    half(upper) << 16 | half(lower)
}

/// Bytes of `y x`, each chosen by four bits of `choice`.
fn permuted(x: u64, y: u64, choice: u64) -> u64 {
    let bytes = (y << 32 | x & 0xffff_ffff).to_le_bytes();
    let byte = |at: u32| {
        let chosen = choice >> (4 * at);
        let byte = bytes[(chosen & 7) as usize];
        // The fourth bit repeats the byte's sign.
        u64::from(if chosen & 8 == 0 { byte } else { ((byte as i8) >> 7) as u8 })
    };
    (0..4).fold(0, |word, at| word | byte(at) << (8 * at))
}

/// The lower `count` bits of `from`, put into `into` at `at`.
fn inserted(from: u64, into: u64, at: u32, count: u32, width: u32) -> u64 {
    let all = u64::MAX >> (64 - width);
    let (at, count) = (at & 0xff, count & 0xff);
    if at >= width || count == 0 {
        return into & all;
    }
    let mask = (u64::MAX >> (64 - count.min(64))) << at & all;
    (into & !mask | from << at & mask) & all
}

fn shifted_left(x: u64, by: u64, width: u32) -> u64 {
    let by = by as u32;
    if by >= width { 0 } else { x << by & (u64::MAX >> (64 - width)) }
}

fn shifted_right(x: u64, by: u64, width: u32) -> u64 {
    let by = by as u32;
    if by >= width { 0 } else { (x & (u64::MAX >> (64 - width))) >> by }
}

/// A function of lanes from one of numbers.
macro_rules! lanes {
    (|$x:ident| $result:expr) => {
        (1, |[x, _, _]: [&Lanes; 3]| {
            array::from_fn(|lane| {
                let $x = x[lane];
                $result
            })
        })
    };
    (|$x:ident, $y:ident| $result:expr) => {
        (2, |[x, y, _]: [&Lanes; 3]| {
            array::from_fn(|lane| {
                let ($x, $y) = (x[lane], y[lane]);
                $result
            })
        })
    };
    (|$x:ident, $y:ident, $z:ident| $result:expr) => {
        (3, |[x, y, z]: [&Lanes; 3]| {
            array::from_fn(|lane| {
                let ($x, $y, $z) = (x[lane], y[lane], z[lane]);
                $result
            })
        })
    };
}

/// The number of sources and the function of an instruction; `None` if it is none of these.
pub(super) fn lane_function(opcode: &str) -> Option<(usize, LaneFunction)> {
    let functions = [integer_function, float_function, double_function, moved_function];
    functions.iter().find_map(|function| function(opcode))
}

fn integer_function(opcode: &str) -> Option<(usize, LaneFunction)> {
    Some(match opcode {
        "add.s16" => lanes!(|x, y| u64::from((x as u16).wrapping_add(y as u16))),
        "add.s32" => lanes!(|x, y| u64::from((x as u32).wrapping_add(y as u32))),
        "add.s64" => lanes!(|x, y| x.wrapping_add(y)),
        "sub.s16" => lanes!(|x, y| u64::from((x as u16).wrapping_sub(y as u16))),
        "sub.s32" => lanes!(|x, y| u64::from((x as u32).wrapping_sub(y as u32))),
        "sub.s64" => lanes!(|x, y| x.wrapping_sub(y)),
        "neg.s32" => lanes!(|x| u64::from((x as u32).wrapping_neg())),
        "neg.s64" => lanes!(|x| x.wrapping_neg()),
        "mul.lo.s16" => lanes!(|x, y| u64::from((x as u16).wrapping_mul(y as u16))),
        "mul.lo.s32" => lanes!(|x, y| u64::from((x as u32).wrapping_mul(y as u32))),
        "mul.lo.s64" => lanes!(|x, y| x.wrapping_mul(y)),
        "mul.wide.u16" => lanes!(|x, y| u64::from(x as u16) * u64::from(y as u16)),
        "mul.wide.u32" => lanes!(|x, y| u64::from(x as u32) * u64::from(y as u32)),
        "mul.wide.s32" => lanes!(|x, y| (i64::from(x as i32) * i64::from(y as i32)) as u64),
        "mad.lo.s32" => lanes!(|x, y, z| u64::from((x as u32).wrapping_mul(y as u32).wrapping_add(z as u32))),
        // The result of a division by zero is not specified.
        "div.u32" => lanes!(|x, y| u64::from((x as u32).checked_div(y as u32).unwrap_or(u32::MAX))),
        "rem.u32" => lanes!(|x, y| u64::from((x as u32).checked_rem(y as u32).unwrap_or(u32::MAX))),
        "min.u32" => lanes!(|x, y| u64::from((x as u32).min(y as u32))),
        "max.u32" => lanes!(|x, y| u64::from((x as u32).max(y as u32))),
        "min.s32" => lanes!(|x, y| u64::from((x as i32).min(y as i32) as u32)),
        "max.s32" => lanes!(|x, y| u64::from((x as i32).max(y as i32) as u32)),
        "and.pred" | "and.b32" | "and.b64" => lanes!(|x, y| x & y),
        "or.pred" | "or.b32" | "or.b64" => lanes!(|x, y| x | y),
        "xor.pred" | "xor.b32" => lanes!(|x, y| x ^ y),
        "not.pred" => lanes!(|x| x ^ 1),
        "not.b32" => lanes!(|x| u64::from(!x as u32)),
        "not.b64" => lanes!(|x| !x),
        "shl.b16" => lanes!(|x, by| shifted_left(x, by, 16)),
        "shl.b32" => lanes!(|x, by| shifted_left(x, by, 32)),
        "shl.b64" => lanes!(|x, by| shifted_left(x, by, 64)),
        "shr.u32" => lanes!(|x, by| shifted_right(x, by, 32)),
        "shr.u64" => lanes!(|x, by| shifted_right(x, by, 64)),
        "prmt.b32" => lanes!(|x, y, choice| permuted(x, y, choice)),
        "setp.eq.s32" | "setp.eq.b32" => lanes!(|x, y| u64::from(x as u32 == y as u32)),
        "setp.ne.s32" => lanes!(|x, y| u64::from(x as u32 != y as u32)),
        "setp.eq.s64" => lanes!(|x, y| u64::from(x == y)),
        "setp.ne.s64" => lanes!(|x, y| u64::from(x != y)),
        "setp.lt.u32" => lanes!(|x, y| u64::from((x as u32) < y as u32)),
        "setp.le.u32" => lanes!(|x, y| u64::from(x as u32 <= y as u32)),
        "setp.gt.u32" => lanes!(|x, y| u64::from(x as u32 > y as u32)),
        "setp.ge.u32" => lanes!(|x, y| u64::from(x as u32 >= y as u32)),
        "setp.lt.s32" => lanes!(|x, y| u64::from((x as i32) < y as i32)),
        "setp.gt.s32" => lanes!(|x, y| u64::from(x as i32 > y as i32)),
        "setp.lt.u64" => lanes!(|x, y| u64::from(x < y)),
        "setp.ge.u64" => lanes!(|x, y| u64::from(x >= y)),
        _ => return None,
    })
}

fn float_function(opcode: &str) -> Option<(usize, LaneFunction)> {
    Some(match opcode {
        // NVRTC writes `.rn` where it may not contract; the rounding is the same.
        "add.f32" | "add.rn.f32" => lanes!(|x, y| bits(float(x) + float(y))),
        "sub.f32" | "sub.rn.f32" => lanes!(|x, y| bits(float(x) - float(y))),
        "mul.f32" | "mul.rn.f32" => lanes!(|x, y| bits(float(x) * float(y))),
        "fma.rn.f32" => lanes!(|x, y, z| bits(float(x).mul_add(float(y), float(z)))),
        "fma.rm.f32" => lanes!(|x, y, z| bits(fused_downwards(float(x), float(y), float(z)))),
        "div.rn.f32" => lanes!(|x, y| bits(float(x) / float(y))),
        "div.approx.f32" => lanes!(|x, y| bits(divided_approximately(float(x), float(y)))),
        "rcp.rn.f32" => lanes!(|x| bits(1.0 / float(x))),
        "rcp.approx.ftz.f32" => lanes!(|x| bits(flushed(1.0 / flushed(float(x))))),
        "sqrt.rn.f32" => lanes!(|x| bits(float(x).sqrt())),
        "ex2.approx.f32" => lanes!(|x| bits(float(x).exp2())),
        "ex2.approx.ftz.f32" => lanes!(|x| bits(flushed(flushed(float(x)).exp2()))),
        "max.f32" => lanes!(|x, y| bits(greater(float(x), float(y)))),
        "abs.f32" => lanes!(|x| x & 0x7fff_ffff),
        "neg.f32" => lanes!(|x| x & 0xffff_ffff ^ 0x8000_0000),
        // The sign of the first with the second.
        "copysign.f32" => lanes!(|sign, x| sign & 0x8000_0000 | x & 0x7fff_ffff),
        "setp.eq.f32" => lanes!(|x, y| u64::from(float(x) == float(y))),
        "setp.lt.f32" => lanes!(|x, y| u64::from(float(x) < float(y))),
        "setp.gt.f32" => lanes!(|x, y| u64::from(float(x) > float(y))),
        "setp.ge.f32" => lanes!(|x, y| u64::from(float(x) >= float(y))),
        // True where one is NaN.
        "setp.neu.f32" => lanes!(|x, y| u64::from(float(x) != float(y))),
        "cvt.rn.f32.u32" => lanes!(|x| bits(x as u32 as f32)),
        "cvt.rn.f32.u64" => lanes!(|x| bits(x as f32)),
        "cvt.rzi.f32.f32" => lanes!(|x| bits(float(x).trunc())),
        // NaN becomes 0.
        "cvt.sat.f32.f32" => lanes!(|x| bits(if float(x) > 0.0 { float(x).min(1.0) } else { 0.0 })),
        "cvt.rn.bf16x2.f32" => lanes!(|upper, lower| rounded_pair(float(upper), float(lower))),
        _ => return None,
    })
}

fn double_function(opcode: &str) -> Option<(usize, LaneFunction)> {
    Some(match opcode {
        "add.f64" | "add.rn.f64" => lanes!(|x, y| double_bits(double(x) + double(y))),
        "sub.f64" | "sub.rn.f64" => lanes!(|x, y| double_bits(double(x) - double(y))),
        "mul.f64" | "mul.rn.f64" => lanes!(|x, y| double_bits(double(x) * double(y))),
        "fma.rn.f64" => lanes!(|x, y, z| double_bits(double(x).mul_add(double(y), double(z)))),
        "max.f64" => lanes!(|x, y| double_bits(greater_double(double(x), double(y)))),
        "setp.eq.f64" => lanes!(|x, y| u64::from(double(x) == double(y))),
        "setp.lt.f64" => lanes!(|x, y| u64::from(double(x) < double(y))),
        "setp.le.f64" => lanes!(|x, y| u64::from(double(x) <= double(y))),
        "setp.gt.f64" => lanes!(|x, y| u64::from(double(x) > double(y))),
        "setp.ge.f64" => lanes!(|x, y| u64::from(double(x) >= double(y))),
        // True where one is NaN.
        "setp.neu.f64" => lanes!(|x, y| u64::from(double(x) != double(y))),
        "setp.ltu.f64" => lanes!(|x, y| u64::from(double(x).partial_cmp(&double(y)).is_none_or(Ordering::is_lt))),
        "setp.leu.f64" => lanes!(|x, y| u64::from(double(x).partial_cmp(&double(y)).is_none_or(Ordering::is_le))),
        "setp.gtu.f64" => lanes!(|x, y| u64::from(double(x).partial_cmp(&double(y)).is_none_or(Ordering::is_gt))),
        "setp.geu.f64" => lanes!(|x, y| u64::from(double(x).partial_cmp(&double(y)).is_none_or(Ordering::is_ge))),
        "setp.nan.f64" => lanes!(|x, y| u64::from(double(x).is_nan() || double(y).is_nan())),
        "cvt.f64.f32" => lanes!(|x| double_bits(f64::from(float(x)))),
        "cvt.rn.f32.f64" => lanes!(|x| bits(double(x) as f32)),
        "cvt.rn.f64.u32" => lanes!(|x| double_bits(f64::from(x as u32))),
        _ => return None,
    })
}

fn moved_function(opcode: &str) -> Option<(usize, LaneFunction)> {
    Some(match opcode {
        "mov.pred" | "mov.u64" | "mov.b64" | "mov.f64" | "cvt.u64.u32" | "cvt.u64.u16" | "cvt.u32.u16" => lanes!(|x| x),
        "mov.u32" | "mov.b32" | "mov.f32" | "cvt.u32.u64" => lanes!(|x| u64::from(x as u32)),
        "mov.u16" | "mov.b16" | "cvt.u16.u32" => lanes!(|x| u64::from(x as u16)),
        "selp.b32" | "selp.u32" | "selp.f32" => lanes!(|x, y, p| u64::from(if p != 0 { x } else { y } as u32)),
        "selp.b64" | "selp.f64" => lanes!(|x, y, p| if p != 0 { x } else { y }),
        // Of global memory, the address itself is generic.
        "cvta.to.global.u64" => lanes!(|x| x),
        "cvta.shared.u64" => lanes!(|x| x.wrapping_add(super::memory::SHARED_WINDOW)),
        "cvta.to.shared.u64" => lanes!(|x| x.wrapping_sub(super::memory::SHARED_WINDOW)),
        _ => return None,
    })
}

/// The function of `bfi`; `None` if it is another instruction.
pub(super) fn insert_function(opcode: &str) -> Option<InsertFunction> {
    match opcode {
        "bfi.b32" => Some(|from, into, at, count| inserted(from & 0xffff_ffff, into, at as u32, count as u32, 32)),
        "bfi.b64" => Some(|from, into, at, count| inserted(from, into, at as u32, count as u32, 64)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result for one lane; the others have zeros.
    fn result<const N: usize>(opcode: &str, from: [u64; N]) -> u64 {
        let (count, function) = lane_function(opcode).unwrap_or_else(|| panic!("{opcode}"));
        assert_eq!(count, N, "{opcode}");
        let sources: [Lanes; 3] = array::from_fn(|at| array::from_fn(|l| if l == 9 && at < N { from[at] } else { 0 }));
        function(sources.each_ref())[9]
    }

    fn of(number: f32) -> u64 {
        u64::from(number.to_bits())
    }

    #[test]
    fn integers_wrap_at_their_width() {
        assert_eq!(result("add.s32", [0xffff_ffff, 2]), 1);
        assert_eq!(result("add.s64", [0xffff_ffff, 2]), 0x1_0000_0001);
        assert_eq!(result("sub.s16", [0, 1]), 0xffff);
        assert_eq!(result("mul.wide.s32", [0xffff_ffff, 5]), -5_i64 as u64);
        assert_eq!(result("mul.wide.u32", [0xffff_ffff, 5]), 0x4_ffff_fffb);
        assert_eq!(result("mad.lo.s32", [0x8000_0000, 2, 7]), 7);
        assert_eq!(result("max.s32", [0xffff_ffff, 1]), 1);
        assert_eq!(result("max.u32", [0xffff_ffff, 1]), 0xffff_ffff);
        assert_eq!(result("setp.gt.s32", [0xffff_ffff, 1]), 0);
        assert_eq!(result("shl.b32", [3, 31]), 0x8000_0000);
        assert_eq!(result("shl.b32", [3, 32]), 0);
        assert_eq!(result("shr.u64", [u64::MAX, 60]), 15);
        assert_eq!(result("not.b32", [0]), 0xffff_ffff);
    }

    #[test]
    fn bytes_are_chosen_and_bits_inserted() {
        // 4180 is 0x1054: the lower halves of both words.
        assert_eq!(result("prmt.b32", [0x3333_1111, 0x4444_2222, 0x1054]), 0x1111_2222);
        assert_eq!(result("prmt.b32", [0x0000_0080, 0, 0x0008]), 0x8080_80ff);
        let insert =
            |opcode, [from, into, at, count]: [u64; 4]| insert_function(opcode).unwrap()(from, into, at, count);
        assert_eq!(insert("bfi.b32", [5, 0xffff_ffff, 3, 29]), 5 << 3 | 7);
        assert_eq!(insert("bfi.b32", [0xff, 0, 4, 4]), 0xf0);
        assert_eq!(insert("bfi.b32", [0xff, 6, 40, 4]), 6);
        assert_eq!(insert("bfi.b64", [9, 7, 32, 32]), 9 << 32 | 7);
    }

    #[test]
    fn doubles_follow_the_text_of_the_instruction_set() {
        let (of, nan) = (f64::to_bits, f64::NAN.to_bits());
        assert_eq!(result("add.f64", [nan, of(1.0)]), CANONICAL_DOUBLE_NAN);
        assert_eq!(result("sub.rn.f64", [of(1.0), of(0.75)]), of(0.25));
        assert_eq!(result("max.f64", [nan, of(-64.0)]), of(-64.0));
        assert_eq!(result("max.f64", [of(-0.0), of(0.0)]), of(0.0));
        assert_eq!(result("max.f64", [of(-1.0), of(-2.0)]), of(-1.0));
        let tiny = f64::EPSILON * f64::EPSILON;
        assert_eq!(
            result("fma.rn.f64", [of(1.0 + f64::EPSILON), of(1.0 + f64::EPSILON), of(-1.0 - 2.0 * f64::EPSILON)]),
            of(tiny)
        );
        for (comparison, [less, equal, greater, unordered]) in [
            ("eq", [0, 1, 0, 0]),
            ("lt", [1, 0, 0, 0]),
            ("le", [1, 1, 0, 0]),
            ("gt", [0, 0, 1, 0]),
            ("ge", [0, 1, 1, 0]),
            ("neu", [1, 0, 1, 1]),
            ("ltu", [1, 0, 0, 1]),
            ("leu", [1, 1, 0, 1]),
            ("gtu", [0, 0, 1, 1]),
            ("geu", [0, 1, 1, 1]),
            ("nan", [0, 0, 0, 1]),
        ] {
            let compared = |x: f64, y: f64| result(&format!("setp.{comparison}.f64"), [of(x), of(y)]);
            let found = [compared(-2.0, 1.0), compared(0.0, -0.0), compared(2.0, 1.0), compared(f64::NAN, 1.0)];
            assert_eq!(found, [less, equal, greater, unordered], "{comparison}");
        }
        assert_eq!(result("cvt.f64.f32", [u64::from(0.1_f32.to_bits())]), of(f64::from(0.1_f32)));
        assert_eq!(result("cvt.rn.f32.f64", [of(0.1)]), u64::from(0.1_f32.to_bits()));
        assert_eq!(result("cvt.rn.f32.f64", [nan]), u64::from(CANONICAL_NAN));
        assert_eq!(result("cvt.rn.f64.u32", [0xffff_ffff]), of(4_294_967_295.0));
        assert_eq!(result("selp.f64", [of(1.5), of(2.5), 0]), of(2.5));
    }

    #[test]
    fn floats_follow_the_text_of_the_instruction_set() {
        let nan = u64::from(f32::NAN.to_bits());
        assert_eq!(result("add.f32", [nan, of(1.0)]), u64::from(CANONICAL_NAN));
        assert_eq!(result("max.f32", [nan, of(1.0)]), of(1.0));
        assert_eq!(result("max.f32", [of(-0.0), of(0.0)]), of(0.0));
        assert_eq!(result("copysign.f32", [of(-2.0), of(3.0)]), of(-3.0));
        assert_eq!(result("setp.neu.f32", [nan, nan]), 1);
        assert_eq!(result("cvt.sat.f32.f32", [of(1.5)]), of(1.0));
        assert_eq!(result("cvt.sat.f32.f32", [nan]), of(0.0));
        assert_eq!(result("cvt.rzi.f32.f32", [of(-1.75)]), of(-1.0));
        assert_eq!(result("ex2.approx.ftz.f32", [of(-126.5)]), of(0.0));
        assert_eq!(result("ex2.approx.f32", [of(-149.0)]), 1);
        assert_eq!(result("div.approx.f32", [of(1.0), of(1.5e38)]), of(0.0));
        assert_eq!(result("rcp.approx.ftz.f32", [of(1e-39)]), of(f32::INFINITY));
        // 1 + 2^-8 lies between two neighbours, and goes to the even one; 1 + 3 * 2^-8, too.
        assert_eq!(result("cvt.rn.bf16x2.f32", [of(1.0 + 1.0 / 256.0), of(1.0 + 3.0 / 256.0)]), 0x3f80_3f82);
        assert_eq!(result("cvt.rn.bf16x2.f32", [of(3.4e38), nan]), 0x7f80_7fff);
        // A chain of products whose exact value is just below, at and just above a number.
        let below = of(f32::EPSILON * f32::EPSILON);
        assert_eq!(result("fma.rm.f32", [below, of(-1.0), of(2.0)]), of(2.0_f32.next_down()));
        assert_eq!(result("fma.rm.f32", [below, of(0.0), of(2.0)]), of(2.0));
        assert_eq!(result("fma.rm.f32", [below, of(1.0), of(2.0)]), of(2.0));
    }
}
