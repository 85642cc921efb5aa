//! The CPU.

/// The CPU: `f32`, all cores.
#[derive(Debug)]
pub struct Cpu;
