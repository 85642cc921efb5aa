//! Reads the text of PTX: kernels, their registers and shared arrays, and statements with their lines.
//!
//! It takes the form in which NVRTC writes: a declaration is a line, a statement ends with a semicolon, and functions
//! other than kernels do not occur.

use std::collections::HashMap;

/// A text that cannot be executed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PtxError {
    /// An instruction whose meaning is not known here.
    #[error("PTX, line {line}: unknown instruction {opcode} in `{statement}`; hint: add it to emulator/src/ptx")]
    UnknownOpcode {
        /// From 1.
        line: usize,
        /// With all its modifiers.
        opcode: String,
        /// The whole statement.
        statement: String,
    },
    /// A text of another form than NVRTC's.
    #[error("PTX, line {line}: {reason}: `{statement}`")]
    Form {
        /// From 1.
        line: usize,
        /// The difference.
        reason: String,
        /// The statement, or the line.
        statement: String,
    },
}

/// Kernels of a text, and the name of the shared memory whose size a launch says.
#[derive(Debug, Default)]
pub(super) struct ParsedModule {
    pub(super) kernels: Vec<ParsedKernel>,
    pub(super) dynamic: Option<String>,
}

/// A kernel's declarations and statements.
#[derive(Debug, Default)]
pub(super) struct ParsedKernel {
    pub(super) name: String,
    /// Names, and bytes of each.
    pub(super) parameters: Vec<(String, usize)>,
    pub(super) most_threads: Option<u32>,
    /// Prefix and count of each bank.
    pub(super) registers: Vec<(String, usize)>,
    /// Names, and bytes of each.
    pub(super) shared: Vec<(String, usize)>,
    /// The statement that follows a label.
    pub(super) labels: HashMap<String, usize>,
    pub(super) statements: Vec<Statement>,
}

/// An instruction's text in its parts.
#[derive(Clone, Debug)]
pub(super) struct Statement {
    pub(super) line: usize,
    pub(super) text: String,
    /// A predicate register, and whether the instruction is executed where it is false.
    pub(super) guard: Option<(String, bool)>,
    pub(super) opcode: String,
    pub(super) operands: Vec<String>,
}

impl Statement {
    /// An error at this statement.
    pub(super) fn form_error(&self, reason: impl Into<String>) -> PtxError {
        form_error(self.line, &self.text, reason)
    }
}

fn form_error(line: usize, statement: &str, reason: impl Into<String>) -> PtxError {
    PtxError::Form { line, reason: reason.into(), statement: statement.into() }
}

/// The place in the text.
enum Section {
    Module,
    Parameters,
    Limits,
    Body,
}

/// Reads a whole text.
pub(super) fn parse_module(text: &str) -> Result<ParsedModule, PtxError> {
    let mut module = ParsedModule::default();
    let mut kernel = ParsedKernel::default();
    let mut section = Section::Module;
    // A statement over several lines, and the line of its begin.
    let mut pending = (0, String::new());
    for (at, whole) in text.lines().enumerate() {
        let line = at + 1;
        let text = whole.split("//").next().unwrap_or_default().trim();
        if text.is_empty() {
            continue;
        }
        match section {
            Section::Module => {
                if let Some(name) = text.strip_prefix(".visible .entry ") {
                    kernel = ParsedKernel { name: name.trim_end_matches('(').into(), ..ParsedKernel::default() };
                    section = Section::Parameters;
                } else if let Some(array) = text.strip_prefix(".extern .shared ") {
                    module.dynamic = Some(parse_array(array).ok_or_else(|| form_error(line, text, "no array"))?.0);
                } else if ![".version ", ".target ", ".address_size 64", ".global "].iter().any(|s| text.starts_with(s))
                {
                    return Err(form_error(line, text, "outside a kernel this is not known"));
                }
            }
            Section::Parameters => {
                if text == ")" {
                    section = Section::Limits;
                } else {
                    let parameter = parse_parameter(text.trim_end_matches(','));
                    kernel.parameters.push(parameter.ok_or_else(|| form_error(line, text, "not a parameter"))?);
                }
            }
            Section::Limits => {
                if text == "{" {
                    section = Section::Body;
                } else {
                    let threads =
                        text.strip_prefix(".maxntid ").and_then(|sizes| sizes.split(',').next()?.parse().ok());
                    kernel.most_threads = Some(threads.ok_or_else(|| form_error(line, text, "not .maxntid"))?);
                }
            }
            Section::Body if text == "}" && pending.1.is_empty() => {
                module.kernels.push(std::mem::take(&mut kernel));
                section = Section::Module;
            }
            Section::Body => {
                if pending.1.is_empty() {
                    pending.0 = line;
                } else {
                    pending.1.push(' ');
                }
                pending.1.push_str(text);
                if text.ends_with(';') || text.ends_with(':') {
                    let (line, whole) = std::mem::take(&mut pending);
                    for part in whole.split_inclusive(';') {
                        add_part(&mut kernel, line, part.trim().trim_end_matches(';').trim())?;
                    }
                }
            }
        }
    }
    match section {
        Section::Module => Ok(module),
        _ => Err(form_error(text.lines().count(), &kernel.name, "the text ends within a kernel")),
    }
}

/// `.param .u64 name`.
fn parse_parameter(text: &str) -> Option<(String, usize)> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [".param", kind, name] = words[..] else { return None };
    let bytes = match kind {
        ".u64" => 8,
        ".u32" | ".f32" => 4,
        _ => return None,
    };
    Some((name.into(), bytes))
}

/// `.align 16 .b8 name[512]`; no number stands for a size that the launch says.
fn parse_array(text: &str) -> Option<(String, usize)> {
    let words: Vec<&str> = text.trim_end_matches(';').split_whitespace().collect();
    let [".align", _, ".b8", array] = words[..] else { return None };
    let (name, count) = array.strip_suffix(']')?.split_once('[')?;
    Some((name.into(), if count.is_empty() { 0 } else { count.parse().ok()? }))
}

/// `.b32 %r<16>`.
fn parse_registers(text: &str) -> Option<(String, usize)> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [".pred" | ".b16" | ".b32" | ".b64" | ".f32" | ".f64", bank] = words[..] else { return None };
    let (prefix, count) = bank.strip_suffix('>')?.split_once('<')?;
    Some((prefix.into(), count.parse().ok()?))
}

/// A declaration, a label, or an instruction of a kernel.
fn add_part(kernel: &mut ParsedKernel, line: usize, text: &str) -> Result<(), PtxError> {
    // Pragmas are hints: of a loop, or of a load that reads more bytes than are used.
    if text.is_empty() || text == ".pragma \"nounroll\"" || text.starts_with(".pragma \"used_bytes_mask ") {
        return Ok(());
    }
    if let Some(bank) = text.strip_prefix(".reg ") {
        kernel.registers.push(parse_registers(bank).ok_or_else(|| form_error(line, text, "not a bank of registers"))?);
        return Ok(());
    }
    if let Some(array) = text.strip_prefix(".shared ") {
        kernel.shared.push(parse_array(array).ok_or_else(|| form_error(line, text, "not an array of bytes"))?);
        return Ok(());
    }
    if let Some(label) = text.strip_suffix(':') {
        kernel.labels.insert(label.into(), kernel.statements.len());
        return Ok(());
    }
    if text.starts_with(['.', '{', '}']) {
        return Err(form_error(line, text, "within a kernel this is not known"));
    }
    kernel.statements.push(parse_statement(line, text)?);
    Ok(())
}

fn parse_statement(line: usize, text: &str) -> Result<Statement, PtxError> {
    let (guard, rest) = match text.strip_prefix('@') {
        None => (None, text),
        Some(guarded) => {
            let (register, rest) =
                guarded.split_once(char::is_whitespace).ok_or_else(|| form_error(line, text, "a guard alone"))?;
            let name = register.trim_start_matches('!');
            (Some((name.into(), register.starts_with('!'))), rest.trim_start())
        }
    };
    let (opcode, operands) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    Ok(Statement {
        line,
        text: text.split_whitespace().collect::<Vec<_>>().join(" "),
        guard,
        opcode: opcode.into(),
        operands: split_operands(operands),
    })
}

/// Splits at the commas outside of braces and brackets.
fn split_operands(text: &str) -> Vec<String> {
    let mut depth = 0_usize;
    let outer = |c: char| {
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    };
    text.split(outer).map(str::trim).filter(|operand| !operand.is_empty()).map(String::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
.version 9.0
.target sm_90
.address_size 64
.extern .shared .align 16 .b8 dynamic_shared[];
.visible .entry one(
\t.param .u64 one_param_0,
\t.param .f32 one_param_1
)
.maxntid 128, 1, 1
{
\t.reg .pred \t%p<2>;
\t.shared .align 16 .b8 held[64];

\t@!%p1 bra \t$L__BB0_1;
\t// begin inline asm
\tmma.sync {%r1, %r2},
\t{%r3}; ret;
\t// end inline asm
$L__BB0_1:
\tst.global.v2.u32 \t[%rd1+4], {%r1, %r2};
}
";

    #[test]
    fn a_kernel_has_declarations_labels_and_statements_with_lines() {
        let module = parse_module(TEXT).unwrap();
        assert_eq!(module.dynamic.as_deref(), Some("dynamic_shared"));
        let [kernel] = &module.kernels[..] else { panic!("{module:?}") };
        assert_eq!((kernel.name.as_str(), kernel.most_threads), ("one", Some(128)));
        assert_eq!(kernel.parameters, [("one_param_0".into(), 8), ("one_param_1".into(), 4)]);
        assert_eq!((&kernel.registers[..], &kernel.shared[..]), (&[("%p".into(), 2)][..], &[("held".into(), 64)][..]));
        let parts: Vec<_> =
            kernel.statements.iter().map(|one| (one.line, one.opcode.as_str(), &one.operands)).collect();
        let operands = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(parts[0], (14, "bra", &operands(&["$L__BB0_1"])));
        assert_eq!(kernel.statements[0].guard, Some(("%p1".into(), true)));
        assert_eq!(parts[1], (16, "mma.sync", &operands(&["{%r1, %r2}", "{%r3}"])));
        assert_eq!(parts[2].1, "ret");
        assert_eq!(parts[3], (20, "st.global.v2.u32", &operands(&["[%rd1+4]", "{%r1, %r2}"])));
        assert_eq!(kernel.labels["$L__BB0_1"], 3);
    }

    #[test]
    fn another_form_is_an_error_with_its_line() {
        for (was, becomes, message) in [
            (".target", ".func", "PTX, line 2: outside a kernel this is not known: `.func sm_90`"),
            (".param .f32", ".param .f64", "PTX, line 7: not a parameter: `.param .f64 one_param_1`"),
            (".reg .pred", ".reg .b128", "PTX, line 11: not a bank of registers: `.reg .b128 \t%p<2>`"),
            (
                ".shared .align 16 .b8 held",
                ".local .b8 held",
                "within a kernel this is not known: `.local .b8 held[64]`",
            ),
            ("{%r1, %r2};\n}", "{%r1, %r2};", "PTX, line 20: the text ends within a kernel: `one`"),
        ] {
            assert!(TEXT.contains(was), "{was}");
            let error = parse_module(&TEXT.replace(was, becomes)).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
