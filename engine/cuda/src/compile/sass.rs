//! Reads the machine code of kernels as `nvdisasm -c` prints it: instructions, and the places to which each goes on.
//!
//! ```text
//!   cubin --nvdisasm--> text --parse_listings--> KernelListing
//!                                                  |--> counts: loads by width, products, calls
//!                                                  |--> flow:   loops, ways of a thread from its begin to its end
//!                                                  '--> table:  ops/bench/gpu/sass.md, and what changed in it
//! ```
//!
//! Only tests disassemble; nothing here runs beside a job.

pub mod counts;
pub mod flow;
pub mod table;

use std::collections::HashMap;

/// One instruction of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineInstruction {
    /// Whether a predicate stands before it, so that some threads pass over it.
    pub guarded: bool,
    /// As in `LDG.E.128`.
    pub opcode: String,
    /// The rest of the line, with its labels.
    pub operands: String,
}

/// The code of one kernel: its own, and the subroutines that the compiler put behind it.
#[derive(Clone, Debug)]
pub struct KernelListing {
    /// The kernel's name.
    pub kernel: String,
    /// In the order of addresses, without NOPs.
    pub instructions: Vec<MachineInstruction>,
    /// For each instruction the indexes of those that a thread may execute next; none behind the last one of a way.
    ///
    /// A call of a subroutine goes on behind the call. Branches for diverged warps (`BRA.DIV`) are left out: no warp
    /// diverges where kernels use the whole warp.
    pub successors: Vec<Vec<usize>>,
}

/// A text that is not a listing of nvdisasm as it is known here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListingError {
    /// The text has no section of code.
    #[error("the listing has no kernel: nvdisasm -c prints each behind a label .text.NAME")]
    Empty,
    /// A branch leads nowhere.
    #[error("{kernel}: {opcode} {operands}: none of the listing's labels is its target")]
    Target {
        /// The kernel.
        kernel: String,
        /// The branch.
        opcode: String,
        /// Its operands.
        operands: String,
    },
}

impl MachineInstruction {
    /// The opcode without its modifiers: `LDG` of `LDG.E.128`.
    pub fn name(&self) -> &str {
        self.opcode.split('.').next().unwrap_or_default()
    }

    /// Whether the opcode has this modifier, as `128`.
    pub fn has_modifier(&self, modifier: &str) -> bool {
        self.opcode.split('.').skip(1).any(|part| part == modifier)
    }

    /// The name of the subroutine that it calls. Names begin with `$`; a call of another label is a branch of the
    /// compiler's from which no thread returns.
    pub fn subroutine(&self) -> Option<&str> {
        let target = self.labels().next().filter(|label| label.starts_with('$'));
        target.filter(|_| self.name() == "CALL")
    }

    /// Labels among the operands: `` `(.L_x_1) ``, or ``"BRANCH_TARGETS .L_x_1,.L_x_2"``.
    fn labels(&self) -> impl Iterator<Item = &str> {
        let single = self.operands.split_once("`(").and_then(|(_, rest)| rest.split(')').next());
        let several = self.operands.split_once("BRANCH_TARGETS ").and_then(|(_, rest)| rest.split('"').next());
        single.into_iter().chain(several.into_iter().flat_map(|targets| targets.split(',').map(str::trim)))
    }

    /// An instruction from the text behind its address.
    fn parse(text: &str) -> Option<Self> {
        let (guard, text) = match text.strip_prefix('@') {
            Some(guarded) => guarded.split_once(char::is_whitespace)?,
            None => ("", text),
        };
        let text = text.trim_start();
        let end = text.find(|c: char| c.is_whitespace() || c == ';').unwrap_or(text.len());
        let (opcode, operands) = text.split_at(end);
        let operands = operands.trim().to_owned();
        (!opcode.is_empty()).then(|| Self { guarded: !guard.is_empty(), opcode: opcode.to_owned(), operands })
    }
}

/// All kernels of a disassembled file, in its order.
///
/// ```text
/// .text.norm_f32:
///         /*0000*/                   S2R R6, SR_TID.X ;
///         /*0010*/              @!P0 BRA `(.L_x_0) ;
/// .L_x_0:
/// ```
///
/// # Errors
/// [`ListingError`].
pub fn parse_listings(text: &str) -> Result<Vec<KernelListing>, ListingError> {
    let mut listings: Vec<(KernelListing, HashMap<&str, usize>)> = Vec::new();
    for line in text.lines() {
        if let Some(kernel) = line.strip_prefix(".text.").and_then(|line| line.strip_suffix(':')) {
            let kernel = kernel.to_owned();
            let listing = KernelListing { kernel, instructions: Vec::new(), successors: Vec::new() };
            listings.push((listing, HashMap::new()));
            continue;
        }
        let Some((listing, labels)) = listings.last_mut() else { continue };
        if let Some(label) = line.strip_suffix(':').filter(|label| !label.starts_with(char::is_whitespace)) {
            labels.insert(label, listing.instructions.len());
        }
        let code = line.trim_start().strip_prefix("/*").and_then(|line| line.split_once("*/"));
        let instruction = code.and_then(|(_, code)| MachineInstruction::parse(code.trim_start()));
        listing.instructions.extend(instruction.filter(|instruction| instruction.name() != "NOP"));
    }
    if listings.is_empty() {
        return Err(ListingError::Empty);
    }
    let finish = |(listing, labels): (KernelListing, HashMap<&str, usize>)| {
        let indexes = 0..listing.instructions.len();
        let successors = indexes.map(|index| find_successors(&listing, &labels, index)).collect::<Result<_, _>>()?;
        Ok(KernelListing { successors, ..listing })
    };
    listings.into_iter().map(finish).collect()
}

/// The instructions that may follow the one at `index`.
fn find_successors(
    listing: &KernelListing,
    labels: &HashMap<&str, usize>,
    index: usize,
) -> Result<Vec<usize>, ListingError> {
    let instruction = &listing.instructions[index];
    let jumps = match instruction.name() {
        "BRA" => !instruction.has_modifier("DIV"),
        "BRX" | "BRXU" | "JMX" => true,
        "CALL" => instruction.subroutine().is_none(),
        _ => false,
    };
    // `BRA.U !UP0` and `BRA.CONV` have their condition among the operands.
    let conditional = instruction.guarded || (instruction.name() == "BRA" && instruction.opcode != "BRA");
    let ends = matches!(instruction.name(), "EXIT" | "RET") || jumps;
    let mut successors = Vec::new();
    if jumps {
        let targets = instruction.labels().map(|label| labels.get(label).copied());
        let targets: Option<Vec<usize>> = targets.collect();
        successors = targets.filter(|targets| !targets.is_empty()).ok_or_else(|| ListingError::Target {
            kernel: listing.kernel.clone(),
            opcode: instruction.opcode.clone(),
            operands: instruction.operands.clone(),
        })?;
    }
    if conditional || !ends {
        successors.push(index + 1);
    }
    successors.retain(|&next| next < listing.instructions.len());
    Ok(successors)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A kernel with a loop of three instructions, a rare call, a switch, and two widths of stores.
    pub(crate) const LISTING: &str = "\
\t.target\tsm_90
//--------------------- .text.gate_bf16           --------------------------
\t.section\t.text.gate_bf16,\"ax\",@progbits
        .size           gate_bf16,(.L_x_9 - gate_bf16)
gate_bf16:
.text.gate_bf16:
        /*0000*/                   S2R R4, SR_TID.X ;
        /*0010*/               @P0 EXIT ;
        /*0020*/              @!P0 BRA `(.L_x_0) ;
        /*0030*/                   CALL.REL.NOINC `($__internal_4_$__cuda_sm20_div_u64) ;
.L_x_0:
        /*0040*/                   LDG.E.128.CONSTANT R4, desc[UR6][R2.64] ;
        /*0050*/                   BRA.DIV UR4, `(.L_x_8) ;
        /*0060*/                   BRX R6 -0x70                 (*\"BRANCH_TARGETS .L_x_1,.L_x_2\"*);
.L_x_1:
        /*0070*/                   MUFU.RCP R7, R8 ;
        /*0080*/                   MUFU.EX2 R7, R8 ;
.L_x_2:
        /*0090*/                   STG.E.128 desc[UR6][R12.64], R4 ;
.L_x_3:
        /*00a0*/                   LDG.E.LTC128B R5, desc[UR6][R12.64] ;
        /*00b0*/                   STG.E.U16 desc[UR6][R12.64], R4 ;
        /*00c0*/              @!P0 BRA `(.L_x_3) ;
        /*00d0*/                   EXIT ;
.L_x_8:
        /*00e0*/                   SHFL.BFLY PT, R8, R3, 0x10, 0x1f ;
        /*00f0*/                   BRA `(.L_x_1) ;
        .weak           $__internal_4_$__cuda_sm20_div_u64
$__internal_4_$__cuda_sm20_div_u64:
        /*0100*/                   MUFU.RCP R7, R8 ;
        /*0110*/                   RET.REL.NODEC R2 `(gate_bf16) ;
.L_x_7:
        /*0120*/                   BRA `(.L_x_7);
        /*0130*/                   NOP;
.L_x_9:
";

    pub(crate) fn example() -> KernelListing {
        let [listing] = parse_listings(LISTING).unwrap().try_into().unwrap();
        listing
    }

    #[test]
    fn each_instruction_knows_what_may_follow_it() {
        let KernelListing { kernel, instructions, successors } = example();
        assert_eq!((kernel.as_str(), instructions.len()), ("gate_bf16", 19));
        assert_eq!(instructions[1], MachineInstruction { guarded: true, opcode: "EXIT".into(), operands: ";".into() });
        assert_eq!(instructions[3].subroutine(), Some("$__internal_4_$__cuda_sm20_div_u64"));
        assert!(instructions[4].has_modifier("128") && !instructions[10].has_modifier("128"));
        let expected: [&[usize]; 19] = [
            &[1],
            &[2],
            &[4, 3],
            &[4],
            &[5],
            &[6],
            &[7, 9],
            &[8],
            &[9],
            &[10],
            &[11],
            &[12],
            &[10, 13],
            &[],
            &[15],
            &[7],
            &[17],
            &[],
            &[18],
        ];
        assert_eq!(successors, expected);
    }

    #[test]
    fn a_call_of_a_label_is_a_branch() {
        let text = ".text.k:\n /*00*/ @P0 CALL.REL.NOINC `(.L_x_1) ;\n /*10*/ BRA.U !UP0, `(.L_x_1) ;\n.L_x_1:\n /*20*/ EXIT ;";
        let [listing] = parse_listings(text).unwrap().try_into().unwrap();
        assert_eq!(listing.successors, [vec![2, 1], vec![2, 2], vec![]]);
        assert_eq!(listing.instructions[0].subroutine(), None);
    }

    #[test]
    fn a_text_that_is_no_listing_is_an_error() {
        assert_eq!(parse_listings("nothing").unwrap_err(), ListingError::Empty);
        let error = parse_listings(".text.k:\n        /*0000*/    BRA `(.L_x_1) ;\n").unwrap_err();
        assert_eq!(error.to_string(), "k: BRA `(.L_x_1) ;: none of the listing's labels is its target");
    }
}
