//! Counts a kernel's instructions by what they do.

use super::flow::{InstructionRate, instruction_rate, longest_loop};
use super::{KernelListing, MachineInstruction};
use std::collections::BTreeSet;

/// Widths of accesses, in bits of a thread; the first also counts wider ones.
pub const WIDTHS: [u32; 5] = [128, 64, 32, 16, 8];

/// The counts of a kernel's code, subroutines of the compiler included.
#[derive(Clone, Debug, PartialEq)]
pub struct SassCounts {
    /// Products on tensor cores.
    pub hmma: usize,
    /// Their shapes and types, as `16816.F32.BF16`.
    pub hmma_types: BTreeSet<String>,
    /// Loads of matrices from shared memory as they lie.
    pub ldsm: usize,
    /// The same, transposed.
    pub ldsm_transposed: usize,
    /// Asynchronous copies of 16 bytes to shared memory.
    pub ldgsts_wide: usize,
    /// Narrower ones.
    pub ldgsts_narrow: usize,
    /// Loads from global memory by [`WIDTHS`].
    pub loads: [usize; WIDTHS.len()],
    /// Stores to global memory by [`WIDTHS`].
    pub stores: [usize; WIDTHS.len()],
    /// Loads from and stores to local memory.
    pub local: usize,
    /// Calls of 64-bit division or remainder.
    pub division_calls: usize,
    /// Calls for rare numbers and diverged warps.
    pub other_calls: usize,
    /// Functions on the special unit, as the reciprocal.
    pub mufu: usize,
    /// Barriers of a block.
    pub bar: usize,
    /// All instructions.
    pub all: usize,
    /// Instructions of the longest loop, inner loops among them.
    pub longest_loop: usize,
    /// Instructions for a number of the result, if the kernel works number by number.
    pub rate: Option<InstructionRate>,
}

/// Counts a kernel. `number` is the size of a number of its result in bytes, for kernels that work number by number.
pub fn count_instructions(listing: &KernelListing, number: Option<u32>) -> SassCounts {
    let all = &listing.instructions;
    let count = |matches: &dyn Fn(&MachineInstruction) -> bool| all.iter().filter(|one| matches(one)).count();
    let named = |names: &[&str]| count(&|one| names.contains(&one.name()));
    let by_width = |name: &str| {
        let index = |one| access_bytes(one, name).map(|bytes| WIDTHS.iter().position(|&bits| bits <= 8 * bytes));
        let mut counts = [0; WIDTHS.len()];
        all.iter().filter_map(index).flatten().for_each(|index| counts[index] += 1);
        counts
    };
    let division = |one: &MachineInstruction| {
        one.subroutine().is_some_and(|name| ["div", "rem"].iter().any(|what| name.contains(&format!("_{what}_u64"))))
    };
    let products = all.iter().filter(|one| one.name() == "HMMA");
    SassCounts {
        hmma: named(&["HMMA"]),
        hmma_types: products.map(|one| one.opcode.trim_start_matches("HMMA.").to_owned()).collect(),
        ldsm: count(&|one| one.name() == "LDSM" && !is_transposed(one)),
        ldsm_transposed: count(&|one| one.name() == "LDSM" && is_transposed(one)),
        ldgsts_wide: count(&|one| access_bytes(one, "LDGSTS") == Some(16)),
        ldgsts_narrow: count(&|one| access_bytes(one, "LDGSTS").is_some_and(|bytes| bytes < 16)),
        loads: by_width("LDG"),
        stores: by_width("STG"),
        local: named(&["LDL", "STL"]),
        division_calls: count(&division),
        other_calls: count(&|one| one.subroutine().is_some() && !division(one)),
        mufu: named(&["MUFU"]),
        bar: named(&["BAR"]),
        all: all.len(),
        longest_loop: longest_loop(listing),
        rate: number.and_then(|number| instruction_rate(listing, number)),
    }
}

/// Bytes of a thread in an access by the instruction `name`; none for other instructions. An opcode without a width
/// moves four.
pub(super) fn access_bytes(instruction: &MachineInstruction, name: &str) -> Option<u32> {
    const MODIFIERS: [(&str, u32); 7] =
        [("256", 32), ("128", 16), ("64", 8), ("U16", 2), ("S16", 2), ("U8", 1), ("S8", 1)];
    let bytes =
        MODIFIERS.iter().find(|(modifier, _)| instruction.has_modifier(modifier)).map_or(4, |(_, bytes)| *bytes);
    (instruction.name() == name).then_some(bytes)
}

fn is_transposed(instruction: &MachineInstruction) -> bool {
    instruction.opcode.split('.').any(|part| part.starts_with("MT"))
}

#[cfg(test)]
mod tests {
    use super::super::parse_listings;
    use super::super::tests::example;
    use super::*;

    #[test]
    fn accesses_are_counted_by_their_width() {
        let counts = count_instructions(&example(), None);
        assert_eq!((counts.loads, counts.stores), ([1, 0, 1, 0, 0], [1, 0, 0, 1, 0]));
        assert_eq!((counts.division_calls, counts.other_calls, counts.mufu, counts.all), (1, 0, 3, 19));
        assert_eq!((counts.longest_loop, counts.rate), (3, None));
    }

    #[test]
    fn products_and_matrix_loads_are_told_apart() {
        let text = "\
.text.k:
        /*00*/                  HMMA.16816.F32.BF16 R8, R4, R2, R8 ;
        /*10*/                  HFMA2.MMA R8, -RZ, RZ, 0, 0 ;
        /*20*/                  LDSM.16.M88.4 R4, [R2] ;
        /*30*/                  LDSM.16.MT88.4 R4, [R2] ;
        /*40*/                  LDGSTS.E.BYPASS.128.ZFILL [R2], desc[UR4][R4.64], P0 ;
        /*50*/                  LDGSTS.E [R2], desc[UR4][R4.64] ;
        /*60*/                  LDGDEPBAR ;
        /*70*/                  STL.128 [R1], R4 ;
        /*80*/                  BAR.SYNC.DEFER_BLOCKING 0x0 ;
        /*90*/                  LDG.E.ENL2.256 R4, R8, desc[UR4][R4.64] ;
        /*a0*/                  CALL.REL.NOINC `($__internal_1_$__cuda_sm3x_div_rn_noftz_f32_slowpath) ;
        /*b0*/                  EXIT ;
";
        let [listing] = parse_listings(text).unwrap().try_into().unwrap();
        let counts = count_instructions(&listing, None);
        assert_eq!((counts.hmma, counts.ldsm, counts.ldsm_transposed), (1, 1, 1));
        assert_eq!(counts.hmma_types, BTreeSet::from(["16816.F32.BF16".to_owned()]));
        assert_eq!((counts.ldgsts_wide, counts.ldgsts_narrow, counts.local, counts.bar), (1, 1, 1, 1));
        assert_eq!((counts.loads, counts.division_calls, counts.other_calls), ([1, 0, 0, 0, 0], 0, 1));
    }
}
