//! Decodes a kernel's statements to instructions with numbered registers.

use super::arithmetic::{insert_function, lane_function};
use super::instruction::{
    Address, Instruction, KernelCode, MemorySpace, Operation, Register, ShuffleMode, SpecialRegister,
};
use super::memory::{SHARED_BEGIN, SHARED_GAP};
use super::parser::{ParsedKernel, PtxError, Statement};
use std::collections::HashMap;

/// The registers of a kernel while it is decoded.
struct KernelDecoder<'a> {
    kernel: &'a ParsedKernel,
    dynamic: Option<&'a str>,
    /// By prefix: the number of the first register, and their count.
    banks: HashMap<&'a str, (Register, usize)>,
    registers: usize,
    constants: HashMap<u64, Register>,
    specials: Vec<(Register, SpecialRegister)>,
    /// By name.
    shared: HashMap<&'a str, u64>,
}

/// Decodes a kernel; `dynamic` names the shared memory whose size a launch says.
pub(super) fn decode_kernel(kernel: &ParsedKernel, dynamic: Option<&str>) -> Result<KernelCode, PtxError> {
    let mut decoder = KernelDecoder {
        kernel,
        dynamic,
        banks: HashMap::new(),
        registers: 0,
        constants: HashMap::new(),
        specials: Vec::new(),
        shared: HashMap::new(),
    };
    for (prefix, count) in &kernel.registers {
        decoder.banks.insert(prefix, (decoder.registers, *count));
        decoder.registers += count;
    }
    let (mut address, mut shared) = (SHARED_BEGIN, Vec::new());
    for (name, bytes) in &kernel.shared {
        decoder.shared.insert(name, address);
        shared.push((address, *bytes));
        address += (*bytes as u64).next_multiple_of(SHARED_GAP) + SHARED_GAP;
    }
    let instructions = kernel.statements.iter().map(|statement| decoder.decode(statement)).collect::<Result<_, _>>()?;
    let mut constants: Vec<_> = decoder.constants.iter().map(|(value, register)| (*register, *value)).collect();
    constants.sort_unstable();
    Ok(KernelCode {
        name: kernel.name.clone(),
        parameters: kernel.parameters.iter().map(|(_, bytes)| *bytes).collect(),
        most_threads: kernel.most_threads,
        registers: decoder.registers,
        constants,
        specials: decoder.specials,
        shared,
        instructions,
    })
}

/// The operands between braces; one operand without braces is alone.
fn listed(operand: &str) -> Vec<&str> {
    match operand.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')) {
        Some(inner) => inner.split(',').map(str::trim).collect(),
        None => vec![operand],
    }
}

/// Bytes of a type in memory.
fn type_bytes(kind: &str) -> Option<usize> {
    match kind {
        "u16" | "b16" => Some(2),
        "u32" | "b32" | "f32" => Some(4),
        "u64" | "b64" | "f64" => Some(8),
        _ => None,
    }
}

/// The bits of a constant: an integer, or a float by its bits.
fn constant_bits(text: &str) -> Option<u64> {
    if let Some(hexadecimal) = text.strip_prefix("0f").or_else(|| text.strip_prefix("0F")) {
        return u32::from_str_radix(hexadecimal, 16).ok().map(u64::from);
    }
    if let Some(hexadecimal) = text.strip_prefix("0d").or_else(|| text.strip_prefix("0D")) {
        return u64::from_str_radix(hexadecimal, 16).ok();
    }
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let number = match digits.strip_prefix("0x") {
        Some(hexadecimal) => u64::from_str_radix(hexadecimal, 16).ok()?,
        None => digits.parse().ok()?,
    };
    Some(if negative { number.wrapping_neg() } else { number })
}

impl KernelDecoder<'_> {
    fn decode(&mut self, statement: &Statement) -> Result<Instruction, PtxError> {
        let guard = match &statement.guard {
            None => None,
            Some((name, inverted)) => Some((self.register(statement, name)?, *inverted)),
        };
        let operation = self.operation(statement)?;
        Ok(Instruction { line: statement.line, text: statement.text.clone(), guard, operation })
    }

    /// The register that a name stands for, as a target.
    fn register(&self, statement: &Statement, name: &str) -> Result<Register, PtxError> {
        let digits = name.find(|c: char| c.is_ascii_digit()).unwrap_or(name.len());
        let found = self.banks.get(&name[..digits]).and_then(|(first, count)| {
            let at: usize = name[digits..].parse().ok()?;
            (at < *count).then_some(first + at)
        });
        found.ok_or_else(|| statement.form_error(format!("{name} is no declared register")))
    }

    fn new_register(&mut self) -> Register {
        self.registers += 1;
        self.registers - 1
    }

    fn constant(&mut self, value: u64) -> Register {
        if let Some(register) = self.constants.get(&value) {
            return *register;
        }
        let register = self.new_register();
        self.constants.insert(value, register);
        register
    }

    fn special(&mut self, special: SpecialRegister) -> Register {
        if let Some((register, _)) = self.specials.iter().find(|(_, known)| *known == special) {
            return *register;
        }
        let register = self.new_register();
        self.specials.push((register, special));
        register
    }

    /// The register with an operand's value.
    fn source(&mut self, statement: &Statement, operand: &str) -> Result<Register, PtxError> {
        let special = match operand {
            "%tid.x" => Some(SpecialRegister::ThreadX),
            "%ntid.x" => Some(SpecialRegister::ThreadsX),
            "%ctaid.x" => Some(SpecialRegister::BlockX),
            "%ctaid.y" => Some(SpecialRegister::BlockY),
            "%nctaid.x" => Some(SpecialRegister::BlocksX),
            "%nctaid.y" => Some(SpecialRegister::BlocksY),
            _ if self.dynamic == Some(operand) => Some(SpecialRegister::DynamicShared),
            _ => None,
        };
        if let Some(special) = special {
            return Ok(self.special(special));
        }
        if operand.starts_with('%') {
            return self.register(statement, operand);
        }
        let value = self.shared.get(operand).copied().or_else(|| constant_bits(operand));
        let value = value.ok_or_else(|| statement.form_error(format!("{operand} is neither register nor constant")))?;
        Ok(self.constant(value))
    }

    fn sources<const N: usize>(&mut self, statement: &Statement, operands: &[&str]) -> Result<[Register; N], PtxError> {
        let found = operands.iter().map(|operand| self.source(statement, operand)).collect::<Result<Vec<_>, _>>()?;
        found.try_into().map_err(|found: Vec<_>| statement.form_error(format!("{N} operands, not {}", found.len())))
    }

    fn targets<const N: usize>(&self, statement: &Statement, operand: &str) -> Result<[Register; N], PtxError> {
        let found = listed(operand).iter().map(|name| self.register(statement, name)).collect::<Result<Vec<_>, _>>()?;
        found.try_into().map_err(|found: Vec<_>| statement.form_error(format!("{N} targets, not {}", found.len())))
    }

    /// `[%rd1+16]`, `[%rd1+-8]` or `[name]`.
    fn address(&mut self, statement: &Statement, operand: &str) -> Result<Address, PtxError> {
        let inner = operand.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let inner = inner.ok_or_else(|| statement.form_error(format!("{operand} is no address")))?;
        let (base, offset) = inner.split_once('+').unwrap_or((inner, "0"));
        let offset = offset.parse().map_err(|_| statement.form_error(format!("{offset} is no offset")))?;
        Ok(Address { base: self.source(statement, base)?, offset })
    }

    fn operation(&mut self, statement: &Statement) -> Result<Operation, PtxError> {
        let opcode = statement.opcode.as_str();
        let operands: Vec<&str> = statement.operands.iter().map(String::as_str).collect();
        let packed = matches!(opcode, "mov.b32") && operands.iter().any(|operand| operand.starts_with('{'));
        if packed {
            return self.halves(statement, &operands);
        }
        if let Some((count, function)) = lane_function(opcode) {
            let [to, from @ ..] = &operands[..] else { return Err(statement.form_error("no operands")) };
            if from.len() != count {
                return Err(statement.form_error(format!("{count} sources, not {}", from.len())));
            }
            let to = self.register(statement, to)?;
            let unused = self.constant(0);
            let mut sources = [unused; 3];
            for (source, operand) in sources.iter_mut().zip(from) {
                *source = self.source(statement, operand)?;
            }
            return Ok(Operation::Compute { to, function, from: sources });
        }
        if let Some(function) = insert_function(opcode) {
            let [to, from @ ..] = &operands[..] else { return Err(statement.form_error("no operands")) };
            let (to, from) = (self.register(statement, to)?, self.sources(statement, from)?);
            return Ok(Operation::Insert { to, function, from });
        }
        match self.access(statement, &operands)? {
            Some(operation) => Ok(operation),
            None => self.warp_operation(statement, &operands),
        }
    }

    /// A word and its halves.
    fn halves(&mut self, statement: &Statement, operands: &[&str]) -> Result<Operation, PtxError> {
        let [to, from] = operands else { return Err(statement.form_error("not two operands")) };
        if to.starts_with('{') {
            return Ok(Operation::Unpack { to: self.targets(statement, to)?, from: self.source(statement, from)? });
        }
        let to = self.register(statement, to)?;
        Ok(Operation::Pack { to, from: self.sources(statement, &listed(from))? })
    }

    /// Loads and stores; `None` for anything else.
    fn access(&mut self, statement: &Statement, operands: &[&str]) -> Result<Option<Operation>, PtxError> {
        let parts: Vec<&str> = statement.opcode.split('.').collect();
        let (verb, space, count, kind) = match parts[..] {
            [verb @ ("ld" | "st"), space, kind] => (verb, space, 1, kind),
            [verb @ ("ld" | "st"), space, "v2", kind] => (verb, space, 2, kind),
            [verb @ ("ld" | "st"), space, "v4", kind] => (verb, space, 4, kind),
            _ => return Ok(None),
        };
        let (Some(bytes), [first, second]) = (type_bytes(kind), operands) else { return Ok(None) };
        if (verb, space, count) == ("ld", "param", 1) {
            let name = second.trim_start_matches('[').trim_end_matches(']');
            let at = self.kernel.parameters.iter().position(|(known, size)| known == name && *size == bytes);
            let at = at.ok_or_else(|| statement.form_error(format!("no parameter {name} of {bytes} bytes")))?;
            let from = self.special(SpecialRegister::Parameter(at));
            let unused = self.constant(0);
            let (_, function) = lane_function("mov.u64").expect("it is in the table");
            let to = self.register(statement, first)?;
            return Ok(Some(Operation::Compute { to, function, from: [from, unused, unused] }));
        }
        let space = match space {
            "global" => MemorySpace::Global,
            "shared" => MemorySpace::Shared,
            _ => return Ok(None),
        };
        let (values, place) = if verb == "ld" { (first, second) } else { (second, first) };
        let address = self.address(statement, place)?;
        let values = listed(values);
        if values.len() != count {
            return Err(statement.form_error(format!("{count} registers, not {}", values.len())));
        }
        Ok(Some(if verb == "ld" {
            let to = values.iter().map(|name| self.register(statement, name)).collect::<Result<_, _>>()?;
            Operation::Load { space, bytes, to, address }
        } else {
            let from = values.iter().map(|name| self.source(statement, name)).collect::<Result<_, _>>()?;
            Operation::Store { space, bytes, from, address }
        }))
    }

    /// Instructions of all lanes together, asynchronous copies, and ways through the code.
    fn warp_operation(&mut self, statement: &Statement, operands: &[&str]) -> Result<Operation, PtxError> {
        let number =
            |text: &str| constant_bits(text).ok_or_else(|| statement.form_error(format!("{text} is no number")));
        Ok(match (statement.opcode.as_str(), operands) {
            ("bra" | "bra.uni", [label]) => {
                let to = self.kernel.labels.get(*label).copied();
                Operation::Branch { to: to.ok_or_else(|| statement.form_error(format!("no label {label}")))? }
            }
            ("ret", []) => Operation::Return,
            // All threads of the block, at the barrier with this number; the kernels have one.
            ("bar.sync", ["0"]) => Operation::SyncThreads,
            ("bar.warp.sync", [lanes]) => Operation::SyncWarp { lanes: self.source(statement, lanes)? },
            ("shfl.sync.bfly.b32" | "shfl.sync.idx.b32", [to, value, by, bounds, lanes]) => {
                let (to, within) = to.split_once('|').map_or((*to, None), |(to, within)| (to, Some(within)));
                let within = within.map(|name| self.register(statement, name)).transpose()?;
                let butterfly = statement.opcode.contains("bfly");
                Operation::Shuffle {
                    mode: if butterfly { ShuffleMode::Butterfly } else { ShuffleMode::Index },
                    to: self.register(statement, to)?,
                    within,
                    value: self.source(statement, value)?,
                    by: self.source(statement, by)?,
                    bounds: self.source(statement, bounds)?,
                    lanes: self.source(statement, lanes)?,
                }
            }
            ("vote.sync.any.pred", [to, value, lanes]) => Operation::VoteAny {
                to: self.register(statement, to)?,
                value: self.source(statement, value)?,
                lanes: self.source(statement, lanes)?,
            },
            ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", [to, left, right, add]) => {
                Operation::MultiplyTiles {
                    to: self.targets(statement, to)?,
                    left: self.sources(statement, &listed(left))?,
                    right: self.sources(statement, &listed(right))?,
                    add: self.sources(statement, &listed(add))?,
                }
            }
            (
                opcode
                @ ("ldmatrix.sync.aligned.m8n8.x4.shared.b16" | "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16"),
                [to, address],
            ) => Operation::LoadTiles {
                to: self.targets(statement, to)?,
                address: self.address(statement, address)?,
                transposed: opcode.contains(".trans."),
            },
            ("cp.async.cg.shared.global", [to, from, "16", read]) => Operation::CopyAsync {
                to: self.address(statement, to)?,
                from: self.address(statement, from)?,
                read: self.source(statement, read)?,
            },
            // Without a size of what is read, all of it is.
            ("cp.async.cg.shared.global", [to, from, "16"]) => Operation::CopyAsync {
                to: self.address(statement, to)?,
                from: self.address(statement, from)?,
                read: self.constant(16),
            },
            ("cp.async.commit_group", []) => Operation::CommitCopies,
            ("cp.async.wait_group", [pending]) => Operation::WaitCopies { pending: number(pending)? },
            (opcode, _) => {
                let (opcode, line) = (opcode.into(), statement.line);
                return Err(PtxError::UnknownOpcode { line, opcode, statement: statement.text.clone() });
            }
        })
    }
}
