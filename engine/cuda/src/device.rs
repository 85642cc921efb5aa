//! [`Device`] for [`Cuda`]: checks shapes and turns operations into launches.

use crate::kernels::{Kernel, ROW, activation_code, kernel_size};
use crate::runtime::{ElementType, KernelArgument, KernelLaunch, Runtime};
use crate::tensor::{from_bytes, stack_weights, to_bytes};
use crate::{Cuda, Tensor, WeightMatrix, WeightVector, attention, log_probs, next_tokens, product};
use KernelArgument::{Buffer, F32, Null, U32};
use hopeval_device::{
    Activation, Attention, Device, DeviceEnergy, DeviceError, DeviceIdentity, Epilogue, HostTensor, LogProbs,
    NextToken, Norm, PendingRead, RotaryAngles, RotaryStyle, TableLookup, TensorColumns, TokenRule, WeightLayout,
};
use std::time::Duration;

/// Threads of a block in kernels with one thread for each number.
const EACH: u32 = 256;

/// Tables that one launch can add.
const TABLES: usize = 4;

impl<R: Runtime> Cuda<R> {
    /// Room for activations.
    pub(crate) fn new_tensor(&self, rows: usize, columns: usize) -> Result<Tensor<R::Buffer>, DeviceError> {
        self.new_tensor_of(rows, columns, self.element)
    }

    /// Room for numbers of this element.
    pub(crate) fn new_tensor_of(
        &self,
        rows: usize,
        columns: usize,
        element: ElementType,
    ) -> Result<Tensor<R::Buffer>, DeviceError> {
        let buffer = self.runtime.allocate(rows * columns * element.size())?;
        Ok(Tensor { buffer, rows, columns, element })
    }

    /// The kernel of this name for activations of this device: `norm` is `norm_f32` or `norm_bf16`.
    pub(crate) fn typed_kernel(&self, family: &'static str, [f32, bf16]: [&'static str; 2]) -> Kernel {
        Kernel::named(
            family,
            match self.element {
                ElementType::F32 => f32,
                ElementType::Bf16 => bf16,
            },
        )
    }

    /// Launches a kernel with a block for each `x` of the grid; does nothing for an empty grid.
    pub(crate) fn launch_blocks(
        &self,
        kernel: Kernel,
        blocks: usize,
        threads: u32,
        arguments: &[KernelArgument<'_, R::Buffer>],
    ) -> Result<(), DeviceError> {
        if blocks == 0 {
            return Ok(());
        }
        self.runtime.launch(KernelLaunch { kernel, grid: (kernel_size(blocks), 1), threads, shared: 0 }, arguments)
    }

    /// Launches a kernel with a thread for each of `numbers`.
    pub(crate) fn launch_each(
        &self,
        kernel: Kernel,
        numbers: usize,
        arguments: &[KernelArgument<'_, R::Buffer>],
    ) -> Result<(), DeviceError> {
        self.launch_blocks(kernel, numbers.div_ceil(EACH as usize), EACH, arguments)
    }

    /// The tensor converted to this device's element; `None` if it has this element already.
    pub(crate) fn convert_tensor(&self, x: &Tensor<R::Buffer>) -> Result<Option<Tensor<R::Buffer>>, DeviceError> {
        if x.element == self.element {
            return Ok(None);
        }
        let out = self.new_tensor(x.rows, x.columns)?;
        let numbers = x.rows * x.columns;
        let (low, high) = (numbers as u64 as u32, (numbers as u64 >> 32) as u32);
        let arguments = [Buffer(&out.buffer), Buffer(&x.buffer), U32(low), U32(high)];
        self.launch_each(Kernel::named("rows", "round_to_bf16"), numbers, &arguments)?;
        Ok(Some(out))
    }
}

/// Vectors of sixteen bytes that a warp holds of a group that it normalises, as in `norm.cu`.
const HELD_VECTORS: usize = 32 * 8;

/// Groups that one block normalises by a warp each: its threads are [`ROW`].
const SHORT_GROUPS: usize = ROW as usize / 32;

/// Threads for one long group of a normalisation. They set the order of its sums, so they depend on its width alone.
fn norm_threads(width: usize) -> u32 {
    match width {
        0..=512 => 32,
        513..=1024 => 128,
        _ => 256,
    }
}

impl<R: Runtime> Device for Cuda<R> {
    type Tensor = Tensor<R::Buffer>;
    type Matrix = WeightMatrix<R::Buffer>;
    type Vector = WeightVector<R::Buffer>;

    fn identity(&self) -> DeviceIdentity {
        let element = match self.element {
            ElementType::F32 => "f32",
            ElementType::Bf16 => "bf16",
        };
        DeviceIdentity {
            name: format!("{}, {element}", self.runtime.name()),
            numerics: format!("cuda-{element}-{}-1", self.runtime.numerics()),
        }
    }

    fn energy(&self) -> Option<&DeviceEnergy> {
        self.runtime.energy()
    }

    fn take_preparation(&self) -> Duration {
        self.runtime.take_tuning()
    }

    fn warm_up(&self, most_rows: usize, pass: impl FnOnce() -> Result<(), DeviceError>) -> Result<(), DeviceError> {
        pass()?;
        self.runtime.tune_products(most_rows)?;
        self.runtime.synchronize()
    }

    fn free_numbers(&self) -> Option<u64> {
        Some(self.runtime.free_memory()? / self.element.size() as u64)
    }

    fn finish_work(&self) -> Result<(), DeviceError> {
        self.runtime.synchronize()
    }

    fn load_matrix(&self, parts: &[HostTensor], layout: WeightLayout) -> Result<Self::Matrix, DeviceError> {
        let stacked = stack_weights(parts, layout, self.element)?;
        let buffer = self.runtime.upload(&stacked.bytes)?;
        Ok(WeightMatrix { buffer, rows: stacked.rows, columns: stacked.columns })
    }

    fn load_vector(&self, parts: &[HostTensor]) -> Result<Self::Vector, DeviceError> {
        let numbers = parts.iter().flat_map(HostTensor::to_f32).collect::<Vec<_>>();
        let exact = self.runtime.upload(&to_bytes(&numbers, ElementType::F32))?;
        let rounded = (self.element == ElementType::Bf16)
            .then(|| self.runtime.upload(&to_bytes(&numbers, ElementType::Bf16)))
            .transpose()?;
        Ok(WeightVector { exact, rounded, len: numbers.len(), numbers: numbers.into() })
    }

    fn upload(&self, rows: usize, columns: usize, values: &[f32]) -> Result<Self::Tensor, DeviceError> {
        assert_eq!(values.len(), rows * columns, "numbers of a tensor; this is a bug");
        let buffer = self.runtime.upload(&to_bytes(values, self.element))?;
        Ok(Tensor { buffer, rows, columns, element: self.element })
    }

    fn reserve(&self, rows: usize, columns: usize) -> Result<Self::Tensor, DeviceError> {
        self.new_tensor(rows, columns)
    }

    fn read_tensor(&self, x: &Self::Tensor) -> Result<Vec<f32>, DeviceError> {
        let mut bytes = vec![0; x.rows * x.columns * x.element.size()];
        self.runtime.download(&x.buffer, &mut bytes)?;
        Ok(from_bytes(&bytes, x.element))
    }

    fn request_tensor(&self, x: &Self::Tensor) -> Result<PendingRead<Vec<f32>>, DeviceError> {
        let element = x.element;
        let bytes = self.runtime.request_bytes(&x.buffer, x.rows * x.columns * element.size())?;
        Ok(bytes.map(move |bytes| from_bytes(&bytes, element)))
    }

    fn shape(&self, x: &Self::Tensor) -> (usize, usize) {
        (x.rows, x.columns)
    }

    fn embed(&self, lookups: &[TableLookup<'_, Self>], scale: f32) -> Result<Self::Tensor, DeviceError> {
        assert!((1..=TABLES).contains(&lookups.len()), "one to {TABLES} tables; this is a bug");
        let (rows, columns) = (lookups[0].ids.len(), lookups[0].table.columns);
        for TableLookup { table, ids } in lookups {
            assert!(ids.len() == rows && table.columns == columns, "tables of one shape; this is a bug");
            assert!(ids.iter().all(|id| (*id as usize) < table.rows), "ids of a table; this is a bug");
        }
        let out = self.new_tensor(rows, columns)?;
        let ids = lookups.iter().map(|l| self.lists.get(&self.runtime, l.ids)).collect::<Result<Vec<_>, _>>()?;
        let mut arguments = vec![Buffer(&out.buffer)];
        for (lookup, ids) in lookups.iter().zip(&ids) {
            arguments.extend([Buffer(&lookup.table.buffer), Buffer(&**ids)]);
        }
        arguments.extend(std::iter::repeat_n(Null, 2 * (TABLES - lookups.len())));
        arguments.extend([U32(kernel_size(columns)), F32(scale)]);
        self.launch_blocks(self.typed_kernel("rows", ["embed_f32", "embed_bf16"]), rows, ROW, &arguments)?;
        Ok(out)
    }

    fn norm(&self, x: &Self::Tensor, norm: Norm<'_, Self>) -> Result<Self::Tensor, DeviceError> {
        let converted = self.convert_tensor(x)?;
        let x = converted.as_ref().unwrap_or(x);
        let out = self.new_tensor(x.rows, x.columns)?;
        self.norm_into(&out, x, (0, 1, x.columns), norm)?;
        Ok(out)
    }

    fn norm_groups(
        &self,
        x: &mut Self::Tensor,
        start: usize,
        groups: usize,
        width: usize,
        norm: Norm<'_, Self>,
    ) -> Result<(), DeviceError> {
        assert!(start + groups * width <= x.columns, "groups of columns; this is a bug");
        assert_eq!(x.element, self.element, "groups of what a product made; this is a bug");
        self.norm_into(x, x, (start, groups, width), norm)
    }

    fn linear(
        &self,
        x: &Self::Tensor,
        weight: &Self::Matrix,
        epilogue: Epilogue<'_, Self>,
    ) -> Result<Self::Tensor, DeviceError> {
        product::linear(self, x, weight, epilogue)
    }

    fn project(
        &self,
        x: &Self::Tensor,
        weight: &Self::Matrix,
        bias: Option<&Self::Vector>,
        scale: f32,
    ) -> Result<Vec<f32>, DeviceError> {
        product::project(self, x, weight, bias, scale, false)?.read()
    }

    fn request_projection(
        &self,
        x: &Self::Tensor,
        weight: &Self::Matrix,
        bias: Option<&Self::Vector>,
        scale: f32,
    ) -> Result<PendingRead<Vec<f32>>, DeviceError> {
        product::project(self, x, weight, bias, scale, true)
    }

    fn gate(&self, x: &Self::Tensor, activation: Activation) -> Result<Self::Tensor, DeviceError> {
        assert!(x.columns.is_multiple_of(2) && x.element == self.element, "two halves of a product; this is a bug");
        let n = x.columns / 2;
        let out = self.new_tensor(x.rows, n)?;
        let arguments = [Buffer(&out.buffer), Buffer(&x.buffer), U32(kernel_size(n)), U32(activation_code(activation))];
        self.launch_blocks(self.typed_kernel("activation", ["gate_f32", "gate_bf16"]), x.rows, ROW, &arguments)?;
        Ok(out)
    }

    fn rotate(
        &self,
        x: &mut Self::Tensor,
        start: usize,
        heads: usize,
        head_dim: usize,
        positions: &[u32],
        rotary: &RotaryAngles<'_, Self>,
    ) -> Result<(), DeviceError> {
        assert!(start + heads * head_dim <= x.columns && 2 * rotary.pairs <= head_dim, "heads; this is a bug");
        assert!(positions.len() == x.rows && x.element == self.element, "a position for each row; this is a bug");
        assert!(
            rotary.table.columns == 2 * rotary.pairs && positions.iter().all(|p| (*p as usize) < rotary.table.rows),
            "positions of the table; this is a bug"
        );
        let list = self.lists.get(&self.runtime, positions)?;
        let arguments = [
            Buffer(&x.buffer),
            Buffer(&rotary.table.buffer),
            Buffer(&*list),
            U32(kernel_size(x.columns)),
            U32(kernel_size(start)),
            U32(kernel_size(heads)),
            U32(kernel_size(head_dim)),
            U32(kernel_size(rotary.pairs)),
            U32(u32::from(rotary.style == RotaryStyle::Interleaved)),
        ];
        let kernel = self.typed_kernel("rotary", ["rotate_f32", "rotate_bf16"]);
        self.launch_blocks(kernel, x.rows, ROW, &arguments)
    }

    fn attention(
        &self,
        q: TensorColumns<'_, Self::Tensor>,
        k: TensorColumns<'_, Self::Tensor>,
        v: TensorColumns<'_, Self::Tensor>,
        attention: &Attention<'_, Self>,
    ) -> Result<Self::Tensor, DeviceError> {
        attention::attend(self, q, k, v, attention)
    }

    fn gather(&self, x: &Self::Tensor, rows: &[u32]) -> Result<Self::Tensor, DeviceError> {
        assert!(rows.iter().all(|row| (*row as usize) < x.rows), "rows of a tensor; this is a bug");
        let out = self.new_tensor_of(rows.len(), x.columns, x.element)?;
        let list = self.lists.get(&self.runtime, rows)?;
        let arguments = [Buffer(&out.buffer), Buffer(&x.buffer), Buffer(&*list), U32(kernel_size(x.columns))];
        let kernel = match x.element {
            ElementType::F32 => "gather_f32",
            ElementType::Bf16 => "gather_bf16",
        };
        self.launch_blocks(Kernel::named("rows", kernel), rows.len(), ROW, &arguments)?;
        Ok(out)
    }

    fn scatter(
        &self,
        into: &mut Self::Tensor,
        to: &[u32],
        from: TensorColumns<'_, Self::Tensor>,
    ) -> Result<(), DeviceError> {
        assert!(from.start + into.columns <= from.tensor.columns, "columns of a tensor; this is a bug");
        assert!(to.len() <= from.tensor.rows, "a row for each place; this is a bug");
        assert!(to.iter().all(|row| (*row as usize) < into.rows), "rows of a tensor; this is a bug");
        let converted = self.convert_tensor(from.tensor)?;
        let tensor = converted.as_ref().unwrap_or(from.tensor);
        let list = self.lists.get(&self.runtime, to)?;
        let arguments = [
            Buffer(&into.buffer),
            Buffer(&*list),
            Buffer(&tensor.buffer),
            U32(kernel_size(into.columns)),
            U32(kernel_size(from.start)),
            U32(kernel_size(tensor.columns)),
        ];
        self.launch_blocks(self.typed_kernel("rows", ["scatter_f32", "scatter_bf16"]), to.len(), ROW, &arguments)
    }

    fn average(&self, x: &Self::Tensor, cu_seqlens: &[u32]) -> Result<Self::Tensor, DeviceError> {
        let sequences = cu_seqlens.len() - 1;
        assert!(cu_seqlens.windows(2).all(|pair| pair[0] <= pair[1]), "sequences of rows; this is a bug");
        assert!(cu_seqlens[sequences] as usize <= x.rows && x.element == self.element, "rows; this is a bug");
        let out = self.new_tensor_of(sequences, x.columns, ElementType::F32)?;
        let list = self.lists.get(&self.runtime, cu_seqlens)?;
        let arguments = [Buffer(&out.buffer), Buffer(&x.buffer), Buffer(&*list), U32(kernel_size(x.columns))];
        if sequences > 0 && x.columns > 0 {
            let kernel = self.typed_kernel("pool", ["average_f32", "average_bf16"]);
            let grid = (kernel_size(sequences), kernel_size(x.columns).div_ceil(ROW));
            self.runtime.launch(KernelLaunch { kernel, grid, threads: ROW, shared: 0 }, &arguments)?;
        }
        Ok(out)
    }

    fn log_probs(
        &self,
        x: &Self::Tensor,
        weight: &Self::Matrix,
        bias: Option<&Self::Vector>,
        scale: f32,
        targets: &[u32],
        temperatures: &[f32],
    ) -> Result<LogProbs, DeviceError> {
        self.request_log_probs(x, weight, bias, scale, targets, temperatures)?.read()
    }

    fn request_log_probs(
        &self,
        x: &Self::Tensor,
        weight: &Self::Matrix,
        bias: Option<&Self::Vector>,
        scale: f32,
        targets: &[u32],
        temperatures: &[f32],
    ) -> Result<PendingRead<LogProbs>, DeviceError> {
        log_probs::request_log_probs(self, x, weight, bias, scale, targets, temperatures)
    }

    fn next_tokens(
        &self,
        x: &Self::Tensor,
        weight: &Self::Matrix,
        bias: Option<&Self::Vector>,
        scale: f32,
        rules: &[TokenRule],
    ) -> Result<Vec<NextToken>, DeviceError> {
        next_tokens::next_tokens(self, x, weight, bias, scale, rules)
    }
}

impl<R: Runtime> Cuda<R> {
    /// Normalises groups of columns of `x` into `out`, which may be `x`: `(start, groups, width)`.
    fn norm_into(
        &self,
        out: &Tensor<R::Buffer>,
        x: &Tensor<R::Buffer>,
        (start, groups, width): (usize, usize, usize),
        norm: Norm<'_, Self>,
    ) -> Result<(), DeviceError> {
        let (weight, bias, eps) = match norm {
            Norm::Layer { weight, bias, eps } => (weight, Some(bias), eps),
            Norm::Rms { weight, eps } => (weight, None, eps),
        };
        assert!(weight.len == width && bias.is_none_or(|b| b.len == width), "weights of a norm; this is a bug");
        let mut arguments = vec![
            Buffer(&out.buffer),
            Buffer(&x.buffer),
            Buffer(&weight.exact),
            bias.map_or(Null, |bias| Buffer(&bias.exact)),
            F32(eps),
            U32(kernel_size(x.columns)),
            U32(kernel_size(start)),
            U32(kernel_size(groups)),
            U32(kernel_size(width)),
        ];
        let count = x.rows * groups;
        // By width and alignment alone, since this sets the order of the sums.
        let vector = 16 / self.element.size();
        let aligned = [width, start, x.columns].iter().all(|columns| columns.is_multiple_of(vector));
        if aligned && width <= HELD_VECTORS * vector {
            arguments.push(U32(kernel_size(count)));
            let kernel = self.typed_kernel("norm", ["norm_short_f32", "norm_short_bf16"]);
            return self.launch_blocks(kernel, count.div_ceil(SHORT_GROUPS), ROW, &arguments);
        }
        let kernel = self.typed_kernel("norm", ["norm_f32", "norm_bf16"]);
        self.launch_blocks(kernel, count, norm_threads(width), &arguments)
    }
}
