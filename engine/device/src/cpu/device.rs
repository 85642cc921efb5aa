//! [`Device`] for the [`Cpu`]: the module behind each operation.

use crate::cpu::clocks::ThreadClocks;
use crate::cpu::{
    Cpu, Tensor, WeightMatrix, WeightVector, attention, embed, gate, gemm, log_probs, next_tokens, norm, rotary, rows,
};
use crate::{
    Activation, Attention, Device, DeviceError, DeviceIdentity, Epilogue, HostTensor, LogProbs, NextToken, Norm,
    RotaryAngles, TableLookup, TensorColumns, TokenRule, WeightLayout,
};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

impl Device for Cpu {
    type Tensor = Tensor;
    type Matrix = WeightMatrix;
    type Vector = WeightVector;

    fn identity(&self) -> DeviceIdentity {
        let isa = self.isa().name();
        DeviceIdentity { name: format!("CPU, {isa}, {} threads", self.threads()), numerics: format!("cpu-{isa}-1") }
    }

    /// Runs on a thread of the pool, where an operation begins at once. Others use the same processors, so the reported
    /// time is the running time of its threads divided by the number that can run at once; if the system does not show
    /// it, wall time.
    fn run_timed<R: Send>(&self, work: impl FnOnce() -> R + Send) -> (R, Duration) {
        // Two simultaneous batches would each be charged for both, and a waiting thread of one could begin the other.
        let _one = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        self.pool.install(|| {
            let (begun, ran) = (Instant::now(), self.clocks.as_ref().map(ThreadClocks::running_time));
            let done = work();
            let ran = self.clocks.as_ref().zip(ran).map(|(clocks, ran)| clocks.running_time().saturating_sub(ran));
            (done, ran.map_or_else(|| begun.elapsed(), |ran| ran / self.processors))
        })
    }

    fn load_matrix(&self, parts: &[HostTensor], layout: WeightLayout) -> Result<WeightMatrix, DeviceError> {
        WeightMatrix::new(parts, layout)
    }

    fn load_vector(&self, parts: &[HostTensor]) -> Result<WeightVector, DeviceError> {
        Ok(WeightVector::new(parts))
    }

    fn upload(&self, rows: usize, columns: usize, values: &[f32]) -> Result<Tensor, DeviceError> {
        assert_eq!(values.len(), rows * columns, "numbers of a tensor; this is a bug");
        let mut tensor = self.new_tensor(rows, columns)?;
        tensor.values_mut().copy_from_slice(values);
        Ok(tensor)
    }

    fn reserve(&self, rows: usize, columns: usize) -> Result<Tensor, DeviceError> {
        self.new_tensor(rows, columns)
    }

    fn read_tensor(&self, x: &Tensor) -> Result<Vec<f32>, DeviceError> {
        Ok(x.values().to_vec())
    }

    fn shape(&self, x: &Tensor) -> (usize, usize) {
        (x.rows(), x.columns())
    }

    fn embed(&self, lookups: &[TableLookup<'_, Self>], scale: f32) -> Result<Tensor, DeviceError> {
        embed::embed(self, lookups, scale)
    }

    fn norm(&self, x: &Tensor, norm: Norm<'_, Self>) -> Result<Tensor, DeviceError> {
        norm::norm(self, x, norm)
    }

    fn norm_groups(
        &self,
        x: &mut Tensor,
        start: usize,
        groups: usize,
        width: usize,
        norm: Norm<'_, Self>,
    ) -> Result<(), DeviceError> {
        norm::norm_groups(self, x, start, groups, width, norm);
        Ok(())
    }

    fn linear(&self, x: &Tensor, weight: &WeightMatrix, epilogue: Epilogue<'_, Self>) -> Result<Tensor, DeviceError> {
        gemm::linear(self, x, weight, epilogue)
    }

    fn gate(&self, x: &Tensor, activation: Activation) -> Result<Tensor, DeviceError> {
        gate::gate(self, x, activation)
    }

    fn rotate(
        &self,
        x: &mut Tensor,
        start: usize,
        heads: usize,
        head_dim: usize,
        positions: &[u32],
        rotary: &RotaryAngles<'_, Self>,
    ) -> Result<(), DeviceError> {
        rotary::rotate(self, x, start, heads, head_dim, positions, rotary)
    }

    fn attention(
        &self,
        q: TensorColumns<'_, Tensor>,
        k: TensorColumns<'_, Tensor>,
        v: TensorColumns<'_, Tensor>,
        attention: &Attention<'_, Self>,
    ) -> Result<Tensor, DeviceError> {
        attention::attention(self, q, k, v, attention)
    }

    fn gather(&self, x: &Tensor, rows: &[u32]) -> Result<Tensor, DeviceError> {
        rows::gather(self, x, rows)
    }

    fn scatter(&self, into: &mut Tensor, to: &[u32], from: TensorColumns<'_, Tensor>) -> Result<(), DeviceError> {
        rows::scatter(self, into, to, from);
        Ok(())
    }

    fn average(&self, x: &Tensor, cu_seqlens: &[u32]) -> Result<Tensor, DeviceError> {
        rows::average(self, x, cu_seqlens)
    }

    fn log_probs(
        &self,
        x: &Tensor,
        weight: &WeightMatrix,
        bias: Option<&WeightVector>,
        scale: f32,
        targets: &[u32],
        temperatures: &[f32],
    ) -> Result<LogProbs, DeviceError> {
        log_probs::log_probs(self, x, weight, bias, scale, targets, temperatures)
    }

    fn next_tokens(
        &self,
        x: &Tensor,
        weight: &WeightMatrix,
        bias: Option<&WeightVector>,
        scale: f32,
        rules: &[TokenRule],
    ) -> Result<Vec<NextToken>, DeviceError> {
        next_tokens::next_tokens(self, x, weight, bias, scale, rules)
    }
}
