//! A pickle reader that executes nothing.
//!
//! A pickle is a program for a small stack machine, and Python's own machine calls any function named in it. This one
//! knows a closed list of names ([`AllowedGlobal`]), each of which makes data of data; any other name is an error that
//! shows it. Values lie in an arena and refer to each other by index, so neither depth nor sharing costs more than the
//! pickle's own length. What a short instruction can make many times (values, copies of shapes) is counted, up to
//! [`MOST_MEMORY`].

use std::collections::HashMap;
use std::sync::Arc;

/// Maximum length of a pickle in bytes; a state dict needs a few hundred for each tensor.
const MOST_BYTES: usize = 64 << 20;

/// Maximum memory of a pickle's values, stack and memo in bytes; a state dict needs some two thousand for each tensor.
const MOST_MEMORY: usize = 512 << 20;

/// Maximum length of a storage's key in bytes; PyTorch's are numbers.
const MOST_KEY: usize = 256;

/// Maximum number of dimensions of a tensor, as in PyTorch.
const MOST_DIMENSIONS: usize = 64;

/// Index of a value in its [`Pickle`].
pub(super) type ValueId = usize;

/// A value in a pickle.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PickleValue {
    None,
    Bool(bool),
    Int(i64),
    /// An integer of more than 64 bits: two's complement, little-endian.
    Big(Vec<u8>),
    Float(f64),
    Text(String),
    Bytes(Vec<u8>),
    Tuple(Vec<ValueId>),
    List(Vec<ValueId>),
    /// In the order of insertion.
    Dict(Vec<(ValueId, ValueId)>),
    Global(AllowedGlobal),
    /// A storage, given by its persistent id.
    Storage(StorageReference),
    Tensor(TensorReference),
}

/// Names allowed in a pickle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AllowedGlobal {
    /// `collections.OrderedDict`, without arguments.
    OrderedDict,
    /// `torch._utils._rebuild_tensor`, `_v2` and `_v3`.
    RebuildTensor,
    /// `torch._utils._rebuild_parameter`.
    RebuildParameter,
    /// `torch.Size`, of a tuple.
    Size,
    /// `torch.FloatStorage` and its like, `torch.float32` and its like.
    Element(StorageElement),
    /// `torch.storage.UntypedStorage`: bytes; the tensor gives their type.
    Untyped,
}

/// Number types of PyTorch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StorageElement {
    F64,
    F32,
    F16,
    Bf16,
    I64,
    I32,
    I16,
    I8,
    U8,
    Bool,
    Complex64,
    Complex128,
}

/// A storage as a pickle refers to it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StorageReference {
    /// Key of its bytes in the file.
    pub(super) key: Arc<str>,
    /// `None` if it is untyped.
    pub(super) element: Option<StorageElement>,
    /// Legacy files: offset and length of this view of the key's bytes, counted in numbers.
    pub(super) view: Option<(u64, u64)>,
}

/// A tensor as a pickle describes it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TensorReference {
    pub(super) storage: StorageReference,
    pub(super) element: StorageElement,
    /// First number, counted in the storage.
    pub(super) offset: u64,
    pub(super) shape: Vec<u64>,
    /// Numbers from one index to the next, for each dimension.
    pub(super) stride: Vec<u64>,
}

impl StorageElement {
    /// Bytes of one number.
    pub(super) fn size(self) -> usize {
        match self {
            Self::Complex128 => 16,
            Self::F64 | Self::I64 | Self::Complex64 => 8,
            Self::F32 | Self::I32 => 4,
            Self::F16 | Self::Bf16 | Self::I16 => 2,
            Self::I8 | Self::U8 | Self::Bool => 1,
        }
    }

    /// PyTorch's name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::F64 => "float64",
            Self::F32 => "float32",
            Self::F16 => "float16",
            Self::Bf16 => "bfloat16",
            Self::I64 => "int64",
            Self::I32 => "int32",
            Self::I16 => "int16",
            Self::I8 => "int8",
            Self::U8 => "uint8",
            Self::Bool => "bool",
            Self::Complex64 => "complex64",
            Self::Complex128 => "complex128",
        }
    }
}

impl AllowedGlobal {
    fn by_name(module: &str, name: &str) -> Option<Self> {
        Some(match (module, name) {
            ("collections", "OrderedDict") => Self::OrderedDict,
            ("torch._utils", "_rebuild_tensor" | "_rebuild_tensor_v2" | "_rebuild_tensor_v3") => Self::RebuildTensor,
            ("torch._utils", "_rebuild_parameter") => Self::RebuildParameter,
            ("torch", "Size") => Self::Size,
            ("torch.storage", "UntypedStorage" | "TypedStorage") | ("torch", "UntypedStorage") => Self::Untyped,
            ("torch" | "torch.storage" | "torch.cuda", name) => Self::Element(match name {
                "DoubleStorage" | "float64" | "double" => StorageElement::F64,
                "FloatStorage" | "float32" | "float" => StorageElement::F32,
                "HalfStorage" | "float16" | "half" => StorageElement::F16,
                "BFloat16Storage" | "bfloat16" => StorageElement::Bf16,
                "LongStorage" | "int64" | "long" => StorageElement::I64,
                "IntStorage" | "int32" | "int" => StorageElement::I32,
                "ShortStorage" | "int16" | "short" => StorageElement::I16,
                "CharStorage" | "int8" => StorageElement::I8,
                "ByteStorage" | "uint8" => StorageElement::U8,
                "BoolStorage" | "bool" => StorageElement::Bool,
                "ComplexFloatStorage" | "complex64" => StorageElement::Complex64,
                "ComplexDoubleStorage" | "complex128" => StorageElement::Complex128,
                _ => return None,
            }),
            _ => return None,
        })
    }
}

/// A reason to refuse a pickle.
#[derive(Debug, PartialEq)]
pub(super) enum PickleError {
    /// It names something outside the allowed list.
    Global(String),
    /// It is not a whole pickle, or not one of a state dict.
    Format(String),
}

/// A parsed pickle.
#[derive(Debug)]
pub(super) struct Pickle {
    values: Vec<PickleValue>,
    /// The pickled value.
    pub(super) root: ValueId,
    /// Bytes read; the next pickle may begin there.
    pub(super) length: usize,
}

impl Pickle {
    /// Reads the pickle at the start of `bytes`.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, PickleError> {
        let (values, stack, memo) = (Vec::new(), Vec::new(), HashMap::new());
        let mut machine = PickleMachine { bytes, at: 0, values, stack, memo, memory: 0 };
        let root = machine.run_to_stop()?;
        Ok(Self { values: machine.values, root, length: machine.at })
    }

    /// A value.
    pub(super) fn get(&self, id: ValueId) -> &PickleValue {
        &self.values[id]
    }

    /// Every value, reachable from the root or not.
    pub(super) fn values(&self) -> impl Iterator<Item = &PickleValue> {
        self.values.iter()
    }
}

/// The reason to refuse a pickle beyond [`MOST_BYTES`].
const TOO_LONG: &str = "the pickle is longer than 64 MiB, more than a state dict needs";

/// Bytes of a place on the stack or in the memo, with the spare room of their growth.
const STACK_ENTRY: usize = 48;

impl PickleValue {
    /// The bytes that it owns beside itself.
    fn owned_bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Big(bytes) | Self::Bytes(bytes) => bytes.len(),
            Self::Tuple(items) | Self::List(items) => items.len() * size_of::<ValueId>(),
            Self::Dict(items) => items.len() * 2 * size_of::<ValueId>(),
            Self::Storage(storage) => storage.key.len(),
            Self::Tensor(tensor) => 2 * tensor.shape.len() * size_of::<u64>(),
            Self::None | Self::Bool(_) | Self::Int(_) | Self::Float(_) | Self::Global(_) => 0,
        }
    }
}

struct PickleMachine<'a> {
    bytes: &'a [u8],
    at: usize,
    values: Vec<PickleValue>,
    /// `None` is a mark.
    stack: Vec<Option<ValueId>>,
    memo: HashMap<u64, ValueId>,
    /// Bytes given to values, the stack and the memo so far.
    memory: usize,
}

fn bad_format<T>(reason: impl Into<String>) -> Result<T, PickleError> {
    Err(PickleError::Format(reason.into()))
}

impl PickleMachine<'_> {
    fn run_to_stop(&mut self) -> Result<ValueId, PickleError> {
        loop {
            let at = self.at;
            if at > MOST_BYTES {
                return bad_format(TOO_LONG);
            }
            if self.memory > MOST_MEMORY {
                return bad_format(format!(
                    "the pickle makes values of more than {MOST_MEMORY} bytes, more than a state dict needs"
                ));
            }
            // A place on the stack or in the memo, which any instruction may take.
            self.memory += STACK_ENTRY;
            let opcode = self.next_byte()?;
            match opcode {
                0x80 => match self.next_byte()? {
                    0..=5 => {}
                    other => return bad_format(format!("a pickle of protocol {other}; 0 to 5 are known")),
                },
                0x95 => drop(self.take_bytes(8)?),
                b'(' => self.stack.push(None),
                b'.' => return self.pop(),
                b'0' => {
                    let Some(_) = self.stack.pop() else { return bad_format("the pickle pops an empty stack") };
                }
                b'1' => drop(self.pop_mark()?),
                b'2' => {
                    let top = self.top()?;
                    self.stack.push(Some(top));
                }
                b'N' => self.push(PickleValue::None),
                0x88 => self.push(PickleValue::Bool(true)),
                0x89 => self.push(PickleValue::Bool(false)),
                b'J' => {
                    let value = i32::from_le_bytes(self.next_array()?);
                    self.push(PickleValue::Int(value.into()));
                }
                b'K' => {
                    let value = self.next_byte()?;
                    self.push(PickleValue::Int(value.into()));
                }
                b'M' => {
                    let value = u16::from_le_bytes(self.next_array()?);
                    self.push(PickleValue::Int(value.into()));
                }
                0x8a => {
                    let length = self.next_byte()?.into();
                    self.push_long(length)?;
                }
                0x8b => {
                    let length = self.length_u32()?;
                    self.push_long(length)?;
                }
                b'I' | b'L' => self.text_integer()?,
                b'F' => {
                    let line = self.next_line()?;
                    let Ok(value) = line.parse() else { return bad_format(format!("{line:?} is not a number")) };
                    self.push(PickleValue::Float(value));
                }
                b'G' => {
                    let value = f64::from_be_bytes(self.next_array()?);
                    self.push(PickleValue::Float(value));
                }
                b'V' => {
                    let line = self.next_line()?;
                    self.push(PickleValue::Text(line));
                }
                b'S' => {
                    let line = self.next_line()?;
                    let inner = line.trim().trim_matches(['\'', '"']);
                    self.push(PickleValue::Text(inner.to_owned()));
                }
                b'X' => {
                    let length = self.length_u32()?;
                    self.push_text(length)?;
                }
                b'T' => {
                    let length = self.length_u32()?;
                    self.push_text(length)?;
                }
                0x8c | b'U' => {
                    let length = self.next_byte()?.into();
                    self.push_text(length)?;
                }
                0x8d => {
                    let length = self.length_u64()?;
                    self.push_text(length)?;
                }
                b'C' => {
                    let length = self.next_byte()?.into();
                    self.push_bytes(length)?;
                }
                b'B' => {
                    let length = self.length_u32()?;
                    self.push_bytes(length)?;
                }
                0x8e => {
                    let length = self.length_u64()?;
                    self.push_bytes(length)?;
                }
                b'}' => self.push(PickleValue::Dict(Vec::new())),
                b']' => self.push(PickleValue::List(Vec::new())),
                b')' => self.push(PickleValue::Tuple(Vec::new())),
                b't' => {
                    let items = self.pop_mark()?;
                    self.push(PickleValue::Tuple(items));
                }
                0x85..=0x87 => {
                    let mut items = (0x85..=opcode).map(|_| self.pop()).collect::<Result<Vec<_>, _>>()?;
                    items.reverse();
                    self.push(PickleValue::Tuple(items));
                }
                b'l' => {
                    let items = self.pop_mark()?;
                    self.push(PickleValue::List(items));
                }
                b'd' => {
                    let items = key_value_pairs(&self.pop_mark()?)?;
                    self.push(PickleValue::Dict(items));
                }
                b'a' => {
                    let item = self.pop()?;
                    self.append_items(vec![item])?;
                }
                b'e' => {
                    let items = self.pop_mark()?;
                    self.append_items(items)?;
                }
                b's' => {
                    let value = self.pop()?;
                    let key = self.pop()?;
                    self.insert_items(vec![(key, value)])?;
                }
                b'u' => {
                    let items = key_value_pairs(&self.pop_mark()?)?;
                    self.insert_items(items)?;
                }
                b'g' | b'h' | b'j' => {
                    let key = self.memo_key(opcode)?;
                    let Some(&id) = self.memo.get(&key) else {
                        return bad_format(format!("nothing is kept under {key}"));
                    };
                    self.stack.push(Some(id));
                }
                b'p' | b'q' | b'r' => {
                    let key = self.memo_key(opcode)?;
                    let top = self.top()?;
                    self.memo.insert(key, top);
                }
                0x94 => {
                    let top = self.top()?;
                    self.memo.insert(self.memo.len() as u64, top);
                }
                b'c' => {
                    let (module, name) = (self.next_line()?, self.next_line()?);
                    self.push_global(&module, &name)?;
                }
                0x93 => {
                    let (name, module) = (self.pop()?, self.pop()?);
                    match (self.values[module].clone(), self.values[name].clone()) {
                        (PickleValue::Text(module), PickleValue::Text(name)) => self.push_global(&module, &name)?,
                        _ => return bad_format("a global whose name is no text"),
                    }
                }
                b'i' => {
                    let (module, name) = (self.next_line()?, self.next_line()?);
                    return Err(PickleError::Global(format!("{module}.{name}")));
                }
                b'R' => {
                    let (arguments, callee) = (self.pop()?, self.pop()?);
                    let made = self.call_global(callee, arguments)?;
                    self.push(made);
                }
                b'b' => self.set_state()?,
                b'Q' => {
                    let id = self.pop()?;
                    let storage = self.storage_reference(id)?;
                    self.push(PickleValue::Storage(storage));
                }
                other => {
                    let shown =
                        if other.is_ascii_graphic() { format!("{:?}", other as char) } else { format!("{other:#04x}") };
                    return bad_format(format!(
                        "instruction {shown} at byte {at} of the pickle is no part of a state dict"
                    ));
                }
            }
        }
    }

    fn push(&mut self, value: PickleValue) {
        self.memory += size_of::<PickleValue>() + value.owned_bytes();
        self.values.push(value);
        self.stack.push(Some(self.values.len() - 1));
    }

    fn pop(&mut self) -> Result<ValueId, PickleError> {
        match self.stack.pop() {
            Some(Some(id)) => Ok(id),
            _ => bad_format("the pickle takes a value that is not there"),
        }
    }

    fn top(&self) -> Result<ValueId, PickleError> {
        match self.stack.last() {
            Some(Some(id)) => Ok(*id),
            _ => bad_format("the pickle takes a value that is not there"),
        }
    }

    fn pop_mark(&mut self) -> Result<Vec<ValueId>, PickleError> {
        let Some(mark) = self.stack.iter().rposition(Option::is_none) else {
            return bad_format("the pickle goes back to a mark that is not there");
        };
        let items = self.stack.split_off(mark + 1).into_iter().flatten().collect();
        self.stack.pop();
        Ok(items)
    }

    fn take_bytes(&mut self, length: usize) -> Result<&[u8], PickleError> {
        if self.at.checked_add(length).is_none_or(|end| end > MOST_BYTES && end <= self.bytes.len()) {
            return bad_format(TOO_LONG);
        }
        let Some(taken) = self.at.checked_add(length).and_then(|end| self.bytes.get(self.at..end)) else {
            return bad_format(format!("the pickle ends at byte {} in the middle of a value", self.bytes.len()));
        };
        self.at += length;
        Ok(taken)
    }

    fn next_byte(&mut self) -> Result<u8, PickleError> {
        Ok(self.take_bytes(1)?[0])
    }

    fn next_array<const N: usize>(&mut self) -> Result<[u8; N], PickleError> {
        Ok(self.take_bytes(N)?.try_into().expect("as many as were taken; this is a bug"))
    }

    fn length_u32(&mut self) -> Result<usize, PickleError> {
        Ok(u32::from_le_bytes(self.next_array()?) as usize)
    }

    fn length_u64(&mut self) -> Result<usize, PickleError> {
        usize::try_from(u64::from_le_bytes(self.next_array()?)).or_else(|_| bad_format("a text longer than memory"))
    }

    fn next_line(&mut self) -> Result<String, PickleError> {
        let rest = &self.bytes[self.at..self.bytes.len().min(MOST_BYTES.max(self.at))];
        let Some(end) = rest.iter().position(|&byte| byte == b'\n') else {
            return bad_format("the pickle ends in the middle of a line");
        };
        let line = String::from_utf8_lossy(&rest[..end]).into_owned();
        self.at += end + 1;
        Ok(line)
    }

    fn push_text(&mut self, length: usize) -> Result<(), PickleError> {
        let Ok(text) = String::from_utf8(self.take_bytes(length)?.to_vec()) else {
            return bad_format("a text that is not UTF-8");
        };
        self.push(PickleValue::Text(text));
        Ok(())
    }

    fn push_bytes(&mut self, length: usize) -> Result<(), PickleError> {
        let bytes = self.take_bytes(length)?.to_vec();
        self.push(PickleValue::Bytes(bytes));
        Ok(())
    }

    fn push_long(&mut self, length: usize) -> Result<(), PickleError> {
        let bytes = self.take_bytes(length)?;
        let value = if length > 8 {
            PickleValue::Big(bytes.to_vec())
        } else {
            let sign = if bytes.last().is_some_and(|byte| byte & 0x80 != 0) { 0xff } else { 0 };
            let mut whole = [sign; 8];
            whole[..length].copy_from_slice(bytes);
            PickleValue::Int(i64::from_le_bytes(whole))
        };
        self.push(value);
        Ok(())
    }

    fn text_integer(&mut self) -> Result<(), PickleError> {
        let line = self.next_line()?;
        let value = match line.as_str() {
            "00" => PickleValue::Bool(false),
            "01" => PickleValue::Bool(true),
            text => match text.trim_end_matches('L').parse() {
                Ok(value) => PickleValue::Int(value),
                Err(_) => return bad_format(format!("{text:?} is not an integer of 64 bits")),
            },
        };
        self.push(value);
        Ok(())
    }

    fn memo_key(&mut self, opcode: u8) -> Result<u64, PickleError> {
        match opcode {
            b'g' | b'p' => {
                let line = self.next_line()?;
                line.parse().or_else(|_| bad_format(format!("{line:?} is not a memo's number")))
            }
            b'h' | b'q' => Ok(self.next_byte()?.into()),
            _ => Ok(u32::from_le_bytes(self.next_array()?).into()),
        }
    }

    fn append_items(&mut self, new: Vec<ValueId>) -> Result<(), PickleError> {
        let list = self.top()?;
        match &mut self.values[list] {
            PickleValue::List(items) => {
                items.extend(new);
                Ok(())
            }
            _ => bad_format("the pickle appends to something that is no list"),
        }
    }

    fn insert_items(&mut self, new: Vec<(ValueId, ValueId)>) -> Result<(), PickleError> {
        let dict = self.top()?;
        match &mut self.values[dict] {
            PickleValue::Dict(items) => {
                items.extend(new);
                Ok(())
            }
            _ => bad_format("the pickle sets an item of something that is no dict"),
        }
    }

    fn push_global(&mut self, module: &str, name: &str) -> Result<(), PickleError> {
        let Some(global) = AllowedGlobal::by_name(module, name) else {
            return Err(PickleError::Global(format!("{module}.{name}")));
        };
        self.push(PickleValue::Global(global));
        Ok(())
    }

    /// The result of calling one of the allowed names.
    fn call_global(&self, callee: ValueId, arguments: ValueId) -> Result<PickleValue, PickleError> {
        let (PickleValue::Global(global), PickleValue::Tuple(arguments)) =
            (&self.values[callee], &self.values[arguments])
        else {
            return bad_format("the pickle calls something that is no function");
        };
        match (global, &arguments[..]) {
            (AllowedGlobal::OrderedDict, []) => Ok(PickleValue::Dict(Vec::new())),
            (AllowedGlobal::Size, [sizes]) => Ok(PickleValue::Tuple(match &self.values[*sizes] {
                PickleValue::Tuple(sizes) | PickleValue::List(sizes) if sizes.len() <= MOST_DIMENSIONS => sizes.clone(),
                _ => return bad_format("a size of something that is no short tuple"),
            })),
            (AllowedGlobal::RebuildParameter, [tensor, ..]) => match &self.values[*tensor] {
                PickleValue::Tensor(tensor) => Ok(PickleValue::Tensor(tensor.clone())),
                _ => bad_format("a parameter of something that is no tensor"),
            },
            (AllowedGlobal::RebuildTensor, [storage, offset, shape, stride, rest @ ..]) => {
                let PickleValue::Storage(storage) = &self.values[*storage] else {
                    return bad_format("a tensor of something that is no storage");
                };
                // `_rebuild_tensor_v3` gives the type after `requires_grad` and the hooks.
                let said = rest.iter().find_map(|&id| match self.values[id] {
                    PickleValue::Global(AllowedGlobal::Element(element)) => Some(element),
                    _ => None,
                });
                let Some(element) = said.or(storage.element) else {
                    return bad_format(format!("a tensor of storage {:?}, whose type nothing says", storage.key));
                };
                let (shape, stride) = (self.read_sizes(*shape)?, self.read_sizes(*stride)?);
                if shape.len() != stride.len() {
                    return bad_format(format!("a tensor of shape {shape:?} has strides {stride:?}"));
                }
                let offset = self.read_size(*offset)?;
                Ok(PickleValue::Tensor(TensorReference { storage: storage.clone(), element, offset, shape, stride }))
            }
            _ => bad_format(format!("{global:?} is called with {} values", arguments.len())),
        }
    }

    /// `obj.__setstate__`: only a dict's own attributes, such as a state dict's `_metadata`. They say nothing about
    /// weights.
    fn set_state(&mut self) -> Result<(), PickleError> {
        let state = self.pop()?;
        let top = self.top()?;
        match (&self.values[top], &self.values[state]) {
            (PickleValue::Dict(_), PickleValue::Dict(_)) => Ok(()),
            _ => bad_format("the pickle sets the state of something that is no dict"),
        }
    }

    /// A persistent id: `('storage', type, key, location, numbers)`; legacy files add a view.
    fn storage_reference(&self, id: ValueId) -> Result<StorageReference, PickleError> {
        let PickleValue::Tuple(fields) = &self.values[id] else {
            return bad_format("a persistent id that is no tuple");
        };
        let field = |n: usize| fields.get(n).map(|&id| &self.values[id]);
        let (Some(PickleValue::Text(kind)), Some(PickleValue::Global(class)), Some(key)) =
            (field(0), field(1), field(2))
        else {
            return bad_format("a persistent id that is no storage");
        };
        let key = match key {
            PickleValue::Text(key) if key.len() > MOST_KEY => {
                return bad_format(format!("a storage whose key has {} bytes; at most {MOST_KEY} are read", key.len()));
            }
            PickleValue::Text(key) => key.as_str().into(),
            PickleValue::Int(key) => key.to_string().into(),
            _ => return bad_format("a storage whose key is no text"),
        };
        let element = match class {
            AllowedGlobal::Element(element) => Some(*element),
            AllowedGlobal::Untyped => None,
            _ => return bad_format(format!("storage {key:?} is of type {class:?}")),
        };
        if kind != "storage" {
            return bad_format(format!("a persistent id of kind {kind:?}; only storages are known"));
        }
        let view = match field(5) {
            None | Some(PickleValue::None) => None,
            Some(PickleValue::Tuple(view)) => match view[..] {
                [_, offset, size] => Some((self.read_size(offset)?, self.read_size(size)?)),
                _ => return bad_format(format!("storage {key:?} is a view of {} fields", view.len())),
            },
            Some(_) => return bad_format(format!("storage {key:?} is a view of something that is no tuple")),
        };
        Ok(StorageReference { key, element, view })
    }

    fn read_sizes(&self, id: ValueId) -> Result<Vec<u64>, PickleError> {
        match &self.values[id] {
            PickleValue::Tuple(items) | PickleValue::List(items) if items.len() <= MOST_DIMENSIONS => {
                items.iter().map(|&item| self.read_size(item)).collect()
            }
            _ => bad_format("a shape that is no tuple of at most 64 sizes"),
        }
    }

    fn read_size(&self, id: ValueId) -> Result<u64, PickleError> {
        match self.values[id] {
            PickleValue::Int(value) if value >= 0 => Ok(value.unsigned_abs()),
            ref other => bad_format(format!("a size that is {other:?}, not a number from 0")),
        }
    }
}

fn key_value_pairs(items: &[ValueId]) -> Result<Vec<(ValueId, ValueId)>, PickleError> {
    let (pairs, rest) = items.as_chunks::<2>();
    if rest.is_empty() {
        Ok(pairs.iter().map(|&[key, value]| (key, value)).collect())
    } else {
        bad_format("a key without a value")
    }
}

#[cfg(test)]
mod tests;
