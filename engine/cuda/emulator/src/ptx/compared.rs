//! A runtime that launches each kernel twice on the same memory, in C++ and in PTX, and compares all that they leave.

use super::{BlockGrid, MemoryBlocks, PtxModule};
use crate::{Emulator, EmulatorBuffer};
use half::bf16;
use hopeval_cuda::runtime::{ElementType, KernelArgument, KernelLaunch, MatrixProduct, Runtime};
use hopeval_device::DeviceError;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

/// The allowed distance of a number from the emulator's. NaN equals NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NumberTolerance {
    /// The type of the numbers that the kernel writes.
    pub element: ElementType,
    /// In units in the last place of the emulator's number.
    pub units: u32,
    /// For numbers near zero, as such.
    pub absolute: f32,
}

/// Launches of a kernel that agreed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelComparison {
    /// Launches.
    pub launches: u64,
    /// Compared bytes.
    pub bytes: u64,
    /// Numbers that differ within the tolerance.
    pub differing: u64,
    /// The farthest of them, in units in the last place.
    pub units: u32,
}

/// The emulator, with each of its launches repeated in PTX. A launch that disagrees is [`DeviceError::Lost`] with the
/// buffer and the number; memory goes on with the emulator's numbers, so that no difference grows.
#[derive(Debug)]
pub struct ComparedRuntime {
    emulator: Emulator,
    modules: Arc<HashMap<String, PtxModule>>,
    tolerance: fn(&str) -> NumberTolerance,
    compared: Mutex<BTreeMap<&'static str, KernelComparison>>,
}

impl ComparedRuntime {
    /// Compares `emulator` with the modules of its families, by their names. `tolerance` is asked by a kernel's name.
    pub fn new(
        emulator: Emulator,
        modules: Arc<HashMap<String, PtxModule>>,
        tolerance: fn(&str) -> NumberTolerance,
    ) -> Self {
        Self { emulator, modules, tolerance, compared: Mutex::default() }
    }

    /// The comparisons so far, by kernel.
    pub fn comparisons(&self) -> BTreeMap<&'static str, KernelComparison> {
        self.compared.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn lost(reason: String) -> DeviceError {
    DeviceError::Lost { device: "PTX".into(), reason }
}

fn content(buffer: &EmulatorBuffer) -> Vec<u8> {
    let mut bytes = vec![0; buffer.len()];
    buffer.read(&mut bytes);
    bytes
}

/// A place on the line of all numbers, so that neighbours are one apart; NaN of any kind is one place.
fn ordinal(element: ElementType, bytes: &[u8]) -> (f32, i64) {
    let (number, bits, sign) = match element {
        ElementType::F32 => {
            let bits = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            (f32::from_bits(bits), bits, 31)
        }
        ElementType::Bf16 => {
            let bits = u16::from_le_bytes([bytes[0], bytes[1]]);
            (bf16::from_bits(bits).to_f32(), u32::from(bits), 15)
        }
    };
    if number.is_nan() {
        return (number, i64::MAX);
    }
    let magnitude = i64::from(bits & !(1 << sign));
    (number, if bits >> sign == 1 { -magnitude } else { magnitude })
}

/// Compares two contents of a buffer, or returns the first number that is too far.
fn compare_contents(
    emulated: &[u8],
    executed: &[u8],
    tolerance: NumberTolerance,
    comparison: &mut KernelComparison,
) -> Result<(), String> {
    comparison.bytes += emulated.len() as u64;
    if emulated == executed {
        return Ok(());
    }
    let size = tolerance.element.size();
    for (at, (left, right)) in emulated.chunks_exact(size).zip(executed.chunks_exact(size)).enumerate() {
        if left == right {
            continue;
        }
        let ((expected, its), (found, place)) = (ordinal(tolerance.element, left), ordinal(tolerance.element, right));
        let units = u32::try_from(its.abs_diff(place)).unwrap_or(u32::MAX);
        let near = units <= tolerance.units || (expected - found).abs() <= tolerance.absolute;
        if !near {
            return Err(format!(
                "number {at} is {found:e} by PTX, {expected:e} by the emulator ({right:x?}, {left:x?})"
            ));
        }
        comparison.differing += u64::from(units > 0);
        comparison.units = comparison.units.max(units);
    }
    Ok(())
}

impl Runtime for ComparedRuntime {
    type Buffer = EmulatorBuffer;

    fn name(&self) -> String {
        "CUDA kernels on the CPU, twice".into()
    }

    fn numerics(&self) -> String {
        self.emulator.numerics()
    }

    fn allocate(&self, bytes: usize) -> Result<EmulatorBuffer, DeviceError> {
        self.emulator.allocate(bytes)
    }

    fn upload(&self, bytes: &[u8]) -> Result<EmulatorBuffer, DeviceError> {
        self.emulator.upload(bytes)
    }

    fn download(&self, from: &EmulatorBuffer, into: &mut [u8]) -> Result<(), DeviceError> {
        self.emulator.download(from, into)
    }

    fn synchronize(&self) -> Result<(), DeviceError> {
        self.emulator.synchronize()
    }

    fn launch(
        &self,
        launch: KernelLaunch,
        arguments: &[KernelArgument<'_, EmulatorBuffer>],
    ) -> Result<(), DeviceError> {
        let (family, name) = (launch.kernel.family.name, launch.kernel.name);
        let module = self.modules.get(family).ok_or_else(|| lost(format!("no PTX of {family}.cu was given")))?;
        // A buffer may be given twice.
        let mut buffers: Vec<&EmulatorBuffer> = Vec::new();
        for argument in arguments {
            if let KernelArgument::Buffer(buffer) = argument
                && !buffers.iter().any(|known| known.address() == buffer.address())
            {
                buffers.push(buffer);
            }
        }
        let mut memory = MemoryBlocks::of_buffers(buffers.iter().map(|buffer| content(buffer)));
        let address = |buffer: &EmulatorBuffer| {
            let at = buffers.iter().position(|known| known.address() == buffer.address());
            at.map_or(0, |at| memory.blocks[at].address)
        };
        let values: Vec<u64> = arguments
            .iter()
            .map(|argument| match argument {
                KernelArgument::Buffer(buffer) => address(buffer),
                KernelArgument::Null => 0,
                KernelArgument::U32(word) => u64::from(*word),
                KernelArgument::F32(number) => u64::from(number.to_bits()),
            })
            .collect();
        self.emulator.launch(launch, arguments)?;
        let grid = BlockGrid { blocks: launch.grid, threads: launch.threads, shared: launch.shared };
        module.run_kernel(name, &grid, &values, &mut memory).map_err(|fault| lost(fault.to_string()))?;
        let tolerance = (self.tolerance)(name);
        let mut all = self.compared.lock().unwrap_or_else(PoisonError::into_inner);
        let comparison = all.entry(name).or_default();
        comparison.launches += 1;
        for (at, (buffer, executed)) in buffers.iter().zip(&memory.blocks).enumerate() {
            compare_contents(&content(buffer), &executed.bytes, tolerance, comparison)
                .map_err(|difference| lost(format!("{name}, {:?} blocks: buffer {at}: {difference}", launch.grid)))?;
        }
        Ok(())
    }

    fn multiply_matrices(&self, product: &MatrixProduct<'_, EmulatorBuffer>) -> Result<(), DeviceError> {
        self.emulator.multiply_matrices(product)
    }
}
