//! Products of matrices by cuBLASLt, with one algorithm for each shape of weights.
//!
//! # Batch invariance
//! An algorithm, the leader, is chosen once for inner and outer length, elements and epilogue, at [`NOMINAL_ROWS`], and
//! could serve every number of rows: its tile fixes the summation order of a row's products. Algorithms that cut the
//! sum into parts and add them later (split-K, reduction schemes) are refused, because the result could depend on the
//! load of the device. Such parts must be stored until they are added, so an algorithm without memory of its own is
//! preferred to one with memory, whatever either reports about itself. The leader depends on the device and on
//! cuBLASLt's version, which are part of [`Runtime::numerics`](crate::runtime::Runtime::numerics). Other algorithms
//! serve some numbers of rows if they are faster and have the leader's bits ([`tuning`]).
//!
//! cuBLASLt is column-major: a row-major matrix is its transpose there. The request is `outᵀ [n, rows] = w [n, k] · xᵀ
//! [k, rows]`. A is `w`, seen as `[k, n]` and transposed; B is `x`, seen as `[k, rows]`; D is seen as `[n, rows]`. So
//! rows are columns there, and all leading dimensions are the weights'.

mod tuning;
mod tuning_file;

use super::context::DeviceContext;
use super::memory::DriverBuffer;
use super::modules::KernelModules;
use crate::machine::LibraryVersion;
use crate::runtime::{ElementType, FusedFunction, MatrixProduct};
use cudarc::cublaslt::{result as lt, result::CublasError, sys};
use cudarc::driver::result as driver;
use hopeval_device::DeviceError;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::{c_int, c_void};
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tuning_file::TuningFile;

/// Bytes of memory beside the operands for an algorithm that needs some, if there is no other.
const WORKSPACE: usize = 32 << 20;

/// The number of rows for choosing an algorithm: a full batch of sequences.
const NOMINAL_ROWS: u64 = 4096;

/// Numbers of rows that the leader must serve, with its tiles full, partly full, and nearly empty.
const EVERY_SIZE: [u64; 6] = [NOMINAL_ROWS, 1, 7, 64, 1000, 1 << 16];

/// The version of the rules for choosing algorithms: other rules may give other bits.
pub(super) const RULES: u32 = 2;

/// The number of requested algorithms, the fastest first.
const CANDIDATES: usize = 64;

/// Alignment in bytes of a product's first weight: rows are multiples of 8 numbers.
const ALIGNMENT: u32 = 16;

/// The properties that decide an algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Shape {
    inner: usize,
    out: usize,
    element: ElementType,
    output_element: ElementType,
    fused: FusedFunction,
    bias: bool,
    residual: bool,
}

/// cuBLASLt on a device.
pub(super) struct CublasProducts {
    context: Arc<DeviceContext>,
    /// Compares results of algorithms.
    kernels: Arc<KernelModules>,
    handle: CublasHandle,
    version: LibraryVersion,
    workspace: DriverBuffer,
    plans: Mutex<ProductPlans>,
    /// Microseconds of trials that [`CublasProducts::take_tuning`] has not told yet.
    tuning_us: AtomicU64,
}

/// The plans by shape, and what was tuned in earlier runs.
struct ProductPlans {
    by_shape: HashMap<Shape, ProductPlan>,
    file: TuningFile,
}

impl CublasProducts {
    /// Allocates the workspace. The library was found, and has this version. Tuned choices of this numerics class are
    /// kept in `cache`.
    pub(super) fn new(
        context: Arc<DeviceContext>,
        kernels: Arc<KernelModules>,
        version: LibraryVersion,
        cache: Option<&Path>,
        numerics: &str,
    ) -> Result<Self, DeviceError> {
        context.make_current()?;
        let handle = attempt_call(&context, "cublasLtCreate", lt::create_handle)?;
        let handle = CublasHandle(handle);
        let workspace = DriverBuffer::new(&context, WORKSPACE)?;
        let file = TuningFile::open(cache, numerics);
        let plans = Mutex::new(ProductPlans { by_shape: HashMap::new(), file });
        Ok(Self { context, kernels, handle, version, workspace, plans, tuning_us: AtomicU64::new(0) })
    }

    /// Enqueues a product.
    ///
    /// # Panics
    /// If a buffer is shorter than its matrix, or
    /// [`Runtime::multiply_matrices`](crate::runtime::Runtime::multiply_matrices) does not allow a length.
    pub(super) fn multiply_matrices(&self, product: &MatrixProduct<'_, DriverBuffer>) -> Result<(), DeviceError> {
        assert_fits(product);
        self.context.make_current()?;
        let shape = Shape {
            inner: product.inner,
            out: product.out,
            element: product.element,
            output_element: product.output_element,
            fused: product.fused,
            bias: product.bias.is_some(),
            residual: product.residual.is_some(),
        };
        // Held until the product is enqueued: a plan's descriptors are set for it.
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        let ProductPlans { by_shape, file } = &mut *plans;
        let plan = match by_shape.entry(shape) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(self.make_plan(shape, product)?),
        };
        let choice = match tuning::range_of(product.rows) {
            Some(range) => self.choice_of_range(plan, file, range)?,
            None => plan.choice,
        };
        match self.run_plan(plan, &choice, product) {
            // A tuned algorithm that does not serve this number of rows after all.
            Err(DeviceError::Unsupported { what, .. }) if choice.algorithm.data != plan.choice.algorithm.data => {
                tracing::debug!("{what}; the leader multiplies");
                self.run_plan(plan, &plan.choice, product)
            }
            done => done,
        }
    }

    /// Tunes all shapes so far for the ranges up to `most_rows`. A trial that the library refuses is left to the
    /// product that needs it, if one does.
    pub(super) fn tune_products(&self, most_rows: usize) -> Result<(), DeviceError> {
        self.context.make_current()?;
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        let ProductPlans { by_shape, file } = &mut *plans;
        for plan in by_shape.values_mut() {
            for range in tuning::ranges_in_use(&plan.shape, most_rows) {
                match self.choice_of_range(plan, file, range) {
                    Err(DeviceError::Unsupported { what, .. }) => tracing::debug!("not tuned: {what}"),
                    tuned => drop(tuned?),
                }
            }
        }
        Ok(())
    }

    /// The time of trials since the last call: it belongs to no request.
    pub(super) fn take_tuning(&self) -> Duration {
        Duration::from_micros(self.tuning_us.swap(0, Relaxed))
    }

    /// The tuned algorithm of a plan for a range of rows, found in the file or by trial.
    fn choice_of_range(
        &self,
        plan: &mut ProductPlan,
        file: &mut TuningFile,
        range: usize,
    ) -> Result<AlgorithmChoice, DeviceError> {
        if !tuning::is_tuned(&plan.shape, range) {
            return Ok(plan.choice);
        }
        if let Some(tuned) = plan.tuned[range] {
            return Ok(tuned);
        }
        let tuned = match file.find_choice(plan.shape, range, &plan.choice) {
            Some(kept) => kept,
            None => {
                // The wait for earlier work is theirs.
                self.context.synchronize()?;
                let begun = Instant::now();
                let tuned = self.tune(plan, range);
                self.tuning_us.fetch_add(begun.elapsed().as_micros() as u64, Relaxed);
                match tuned {
                    // Another run may have the memory.
                    Err(error @ DeviceError::OutOfMemory { .. }) => {
                        tracing::debug!(
                            "{:?}, range {range}: the leader multiplies, not compared: {error}",
                            plan.shape
                        );
                        plan.choice
                    }
                    tuned => {
                        let tuned = tuned?;
                        file.keep_choice(plan.shape, range, &plan.choice, tuned);
                        tuned
                    }
                }
            }
        };
        plan.tuned[range] = Some(tuned);
        Ok(tuned)
    }

    fn run_plan(
        &self,
        plan: &ProductPlan,
        choice: &AlgorithmChoice,
        product: &MatrixProduct<'_, DriverBuffer>,
    ) -> Result<(), DeviceError> {
        let set = || plan.set_rows(product.rows as u64).and_then(|()| plan.set_bias(product.bias));
        attempt_call(&self.context, "a descriptor of cuBLASLt", set)?;
        let weight = product.weight.address() + (product.first * product.inner * product.element.size()) as u64;
        let (scale, share) = (product.scale, if product.residual.is_some() { 1.0_f32 } else { 0.0 });
        // The summand: the residual in place, a copy of it in the output, or nothing.
        let (added, copied) = match product.residual {
            Some(residual) if choice.is_apart => (residual, None),
            residual => (product.output, residual),
        };
        let output = product.output.address() as *mut c_void;
        let pointer = |address: u64| address as *const c_void;
        let workspace = if choice.workspace == 0 { 0 } else { self.workspace.address() };
        // SAFETY: the descriptors were made with the plan and set for this product. Every matrix lies within its buffer
        // (`assert_fits`), and buffers are freed in the stream's order. The factors are read before the call returns. A
        // second call after a failure writes the same: the output is not an operand, or becomes one anew.
        let given = || unsafe {
            if let Some(residual) = copied {
                let bytes = product.rows * product.out * product.output_element.size();
                let (to, from) = (product.output.address(), residual.address());
                // The wait reports the state of a device that cannot even copy.
                driver::memcpy_dtod_async(to, from, bytes, self.context.stream())
                    .map_err(|_| CublasError(sys::cublasStatus_t::CUBLAS_STATUS_EXECUTION_FAILED))?;
            }
            lt::matmul(
                self.handle.0,
                plan.descriptor.0,
                (&raw const scale).cast(),
                (&raw const share).cast(),
                pointer(weight),
                plan.weight.0,
                pointer(product.x.address()),
                plan.x.0,
                pointer(added.address()),
                plan.output.0,
                output,
                plan.output.0,
                &raw const choice.algorithm,
                workspace as *mut c_void,
                choice.workspace,
                self.context.stream().cast(),
            )
        };
        attempt_call(&self.context, format_args!("cublasLtMatmul of {} rows, {:?}", product.rows, plan.shape), given)
    }

    /// Makes the descriptors of a shape and chooses its algorithm. `product` gives the bias's address for the choice.
    /// The place does not matter: every bias begins a buffer, so all are aligned alike.
    fn make_plan(&self, shape: Shape, product: &MatrixProduct<'_, DriverBuffer>) -> Result<ProductPlan, DeviceError> {
        let make = || ProductPlan::new(shape).and_then(|plan| plan.set_bias(product.bias).map(|()| plan));
        let mut plan = attempt_call(&self.context, "a descriptor of cuBLASLt", make)?;
        let mut refused = 0;
        for workspace in [0, WORKSPACE] {
            let call = format_args!("cublasLtMatmulAlgoGetHeuristic of {shape:?}");
            let mut candidates =
                attempt_call(&self.context, call, || self.find_candidates(&plan, workspace, NOMINAL_ROWS))?;
            // The fastest first, by cuBLASLt's estimate; algorithms that need a copy of the residual last.
            if shape.residual {
                candidates.sort_by_key(|algorithm| !writes_apart(algorithm));
            }
            for algorithm in candidates {
                match self.refusal_reason(&plan, &algorithm, workspace, &EVERY_SIZE) {
                    None => {
                        let is_apart = !shape.residual || writes_apart(&algorithm);
                        plan.choice = AlgorithmChoice { algorithm, workspace, is_apart };
                        tracing::debug!("{shape:?}: {}, refused before it {refused}", plan.choice);
                        return Ok(plan);
                    }
                    Some(why) => {
                        tracing::debug!("{shape:?}: refused {}: {why}", AlgorithmDescription(&algorithm));
                        refused += 1;
                    }
                }
            }
        }
        Err(self.context.unsupported_error(format!(
            "no algorithm of cuBLASLt {} multiplies {shape:?} whole, for every number of rows; \
             {refused} were offered and refused",
            self.version
        )))
    }

    /// The algorithms for so many rows with at most `workspace` bytes, the fastest first by cuBLASLt's estimate; empty
    /// if it knows none.
    fn find_candidates(
        &self,
        plan: &ProductPlan,
        workspace: usize,
        rows: u64,
    ) -> Result<Vec<sys::cublasLtMatmulAlgo_t>, CublasError> {
        plan.set_rows(rows)?;
        let preference = make_preference(workspace)?;
        let mut found = vec![nothing_found(); CANDIDATES];
        let mut count: c_int = 0;
        // SAFETY: handle, descriptors and preference are whole; the call writes at most `CANDIDATES` results.
        let status = unsafe {
            sys::cublasLtMatmulAlgoGetHeuristic(
                self.handle.0,
                plan.descriptor.0,
                plan.weight.0,
                plan.x.0,
                plan.output.0,
                plan.output.0,
                preference.0,
                CANDIDATES as c_int,
                found.as_mut_ptr(),
                &raw mut count,
            )
        };
        if status == sys::cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED {
            return Ok(Vec::new());
        }
        status.result()?;
        found.truncate(usize::try_from(count).unwrap_or(0));
        found.retain(|result| result.state == sys::cublasStatus_t::CUBLAS_STATUS_SUCCESS);
        Ok(found.into_iter().map(|result| result.algo).collect())
    }

    /// The reason to refuse an algorithm: it does not sum whole rows, or does not serve all of these numbers of them.
    fn refusal_reason(
        &self,
        plan: &ProductPlan,
        algorithm: &sys::cublasLtMatmulAlgo_t,
        workspace: usize,
        numbers_of_rows: &[u64],
    ) -> Option<String> {
        use sys::cublasLtMatmulAlgoConfigAttributes_t as Setting;
        let parts = algorithm_setting(algorithm, Setting::CUBLASLT_ALGO_CONFIG_SPLITK_NUM);
        let scheme = algorithm_setting(algorithm, Setting::CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME);
        if !matches!(parts, Some(0 | 1)) || scheme != Some(0) {
            return Some(format!("its sums have {parts:?} parts, reduced by scheme {scheme:?}"));
        }
        numbers_of_rows.iter().find_map(|&rows| self.refusal_of_rows(plan, algorithm, workspace, rows))
    }

    fn refusal_of_rows(
        &self,
        plan: &ProductPlan,
        algorithm: &sys::cublasLtMatmulAlgo_t,
        workspace: usize,
        rows: u64,
    ) -> Option<String> {
        let mut result = nothing_found();
        let checked = plan.set_rows(rows).and_then(|()| {
            // SAFETY: handle, descriptors and algorithm are whole; the call writes one result.
            unsafe {
                sys::cublasLtMatmulAlgoCheck(
                    self.handle.0,
                    plan.descriptor.0,
                    plan.weight.0,
                    plan.x.0,
                    plan.output.0,
                    plan.output.0,
                    algorithm,
                    &raw mut result,
                )
            }
            .result()
        });
        match checked {
            Err(error) => Some(format!("{:?} for {rows} rows", error.0)),
            Ok(()) if result.workspaceSize > workspace => {
                Some(format!("it needs {} bytes of workspace for {rows} rows", result.workspaceSize))
            }
            Ok(()) => None,
        }
    }
}

impl Drop for CublasProducts {
    fn drop(&mut self) {
        // The handle's own memory is the context's; `cublasLtDestroy` must find it in place and idle. A lost context
        // has no such memory.
        drop(self.context.make_current().and_then(|()| self.context.synchronize()));
    }
}

impl fmt::Debug for CublasProducts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Products").field("version", &self.version).finish_non_exhaustive()
    }
}

/// A shape's descriptors and algorithm. The descriptors are set anew for each product, under the lock.
struct ProductPlan {
    shape: Shape,
    descriptor: ProductDescriptor,
    /// `[out, inner]`, row-major.
    weight: MatrixDescriptor,
    /// `[rows, inner]`, row-major.
    x: MatrixDescriptor,
    /// `[rows, out]`, row-major; the residual's, too.
    output: MatrixDescriptor,
    /// The leader.
    choice: AlgorithmChoice,
    /// The tuned algorithm of each range of rows, once it is known.
    tuned: [Option<AlgorithmChoice>; tuning::RANGES.len()],
}

/// An algorithm with its settings.
#[derive(Clone, Copy)]
struct AlgorithmChoice {
    algorithm: sys::cublasLtMatmulAlgo_t,
    /// Bytes.
    workspace: usize,
    /// True if it adds a residual outside its output; else the residual is copied to the output first.
    is_apart: bool,
}

impl fmt::Display for AlgorithmChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let residual = if self.is_apart { "" } else { ", with the residual copied to its output" };
        write!(f, "{}{} bytes of workspace{residual}", AlgorithmDescription(&self.algorithm), self.workspace)
    }
}

// SAFETY: only this struct owns the descriptors; they are plain host memory, usable by any thread, one at a time.
unsafe impl Send for ProductPlan {}

impl ProductPlan {
    /// A plan without an algorithm or rows yet.
    fn new(shape: Shape) -> Result<Self, CublasError> {
        use sys::cublasLtMatmulDescAttributes_t as Attribute;
        let (inner, out) = (shape.inner as u64, shape.out as u64);
        let (operand, result) = (data_type(shape.element), data_type(shape.output_element));
        let compute = sys::cublasComputeType_t::CUBLAS_COMPUTE_32F;
        let descriptor = ProductDescriptor(lt::create_matmul_desc(compute, sys::cudaDataType_t::CUDA_R_32F)?);
        // CUBLAS_OP_T and CUBLAS_OP_N of cublasOperation_t.
        descriptor.set_attribute(Attribute::CUBLASLT_MATMUL_DESC_TRANSA, 1_i32)?;
        descriptor.set_attribute(Attribute::CUBLASLT_MATMUL_DESC_TRANSB, 0_i32)?;
        descriptor
            .set_attribute(Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE, cublas_epilogue(shape.fused, shape.bias) as u32)?;
        let weight = MatrixDescriptor(lt::create_matrix_layout(operand, inner, out, shape.inner as i64)?);
        let x = MatrixDescriptor(lt::create_matrix_layout(operand, inner, NOMINAL_ROWS, shape.inner as i64)?);
        let output = MatrixDescriptor(lt::create_matrix_layout(result, out, NOMINAL_ROWS, shape.out as i64)?);
        let choice =
            AlgorithmChoice { algorithm: sys::cublasLtMatmulAlgo_t { data: [0; 8] }, workspace: 0, is_apart: true };
        Ok(Self { shape, descriptor, weight, x, output, choice, tuned: [None; tuning::RANGES.len()] })
    }

    fn set_rows(&self, rows: u64) -> Result<(), CublasError> {
        self.x.set_columns(rows)?;
        self.output.set_columns(rows)
    }

    fn set_bias(&self, bias: Option<&DriverBuffer>) -> Result<(), CublasError> {
        bias.map_or(Ok(()), |bias| self.set_bias_address(bias.address()))
    }

    fn set_bias_address(&self, address: u64) -> Result<(), CublasError> {
        self.descriptor.set_attribute(sys::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_BIAS_POINTER, address)
    }
}

/// # Panics
/// If a matrix does not lie within its buffer.
fn assert_fits(product: &MatrixProduct<'_, DriverBuffer>) {
    let MatrixProduct { rows, inner, out, first, element, output_element, .. } = *product;
    assert!(rows > 0 && inner > 0 && out > 0, "{rows} rows, {inner} to {out}; this is a bug");
    assert!(inner.is_multiple_of(8) && out.is_multiple_of(8), "{inner} to {out}; this is a bug");
    assert!(
        output_element == element || output_element == ElementType::F32,
        "{element:?} to {output_element:?}; this is a bug"
    );
    assert!(
        product.residual.is_none() || product.fused == FusedFunction::Nothing,
        "a residual after {:?}; this is a bug",
        product.fused
    );
    let written = output_element.size();
    let fits = |buffer: &DriverBuffer, numbers: usize, size: usize| buffer.bytes() >= numbers * size;
    assert!(fits(product.x, rows * inner, element.size()), "x of {rows} x {inner}: {:?}; this is a bug", product.x);
    let weights = (first + out) * inner;
    assert!(fits(product.weight, weights, element.size()), "weights of {weights}: {:?}; this is a bug", product.weight);
    assert!(fits(product.output, rows * out, written), "output of {rows} x {out}: {:?}; this is a bug", product.output);
    assert!(product.residual.is_none_or(|buffer| fits(buffer, rows * out, written)), "the residual; this is a bug");
    assert!(product.bias.is_none_or(|buffer| fits(buffer, out, written)), "the bias; this is a bug");
}

/// Makes a call of cuBLASLt. If it fails for lack of a resource, waits for all work, gives the pool's memory back, and
/// calls once more: cuBLASLt does not always report that memory was short. If the device is lost, the wait returns the
/// reason.
///
/// # Errors
/// As the driver's: exhausted memory, an unsupported request, or the context's end.
fn attempt_call<T>(
    context: &DeviceContext,
    call: impl fmt::Display,
    mut attempt: impl FnMut() -> Result<T, CublasError>,
) -> Result<T, DeviceError> {
    let mut given = attempt();
    if given.as_ref().is_err_and(|error| !is_refusal(error)) {
        context.give_back()?;
        given = attempt();
    }
    given.map_err(|error| {
        let said = format!("{call} failed with {:?}", error.0);
        match error.0 {
            sys::cublasStatus_t::CUBLAS_STATUS_ALLOC_FAILED => context.out_of_memory(0),
            _ if is_refusal(&error) => context.unsupported_error(said),
            _ => context.mark_lost(said),
        }
    })
}

/// True if cuBLASLt refuses the request and has begun nothing.
fn is_refusal(error: &CublasError) -> bool {
    use sys::cublasStatus_t as Status;
    matches!(
        error.0,
        Status::CUBLAS_STATUS_INVALID_VALUE
            | Status::CUBLAS_STATUS_ARCH_MISMATCH
            | Status::CUBLAS_STATUS_NOT_SUPPORTED
            | Status::CUBLAS_STATUS_LICENSE_ERROR
    )
}

fn data_type(element: ElementType) -> sys::cudaDataType_t {
    match element {
        ElementType::F32 => sys::cudaDataType_t::CUDA_R_32F,
        ElementType::Bf16 => sys::cudaDataType_t::CUDA_R_16BF,
    }
}

/// cuBLASLt assumes that a bias has the output's element, as it does here.
fn cublas_epilogue(fused: FusedFunction, bias: bool) -> sys::cublasLtEpilogue_t {
    use sys::cublasLtEpilogue_t as Epilogue;
    match (fused, bias) {
        (FusedFunction::Nothing, false) => Epilogue::CUBLASLT_EPILOGUE_DEFAULT,
        (FusedFunction::Nothing, true) => Epilogue::CUBLASLT_EPILOGUE_BIAS,
        (FusedFunction::Relu, false) => Epilogue::CUBLASLT_EPILOGUE_RELU,
        (FusedFunction::Relu, true) => Epilogue::CUBLASLT_EPILOGUE_RELU_BIAS,
        (FusedFunction::GeluTanh, false) => Epilogue::CUBLASLT_EPILOGUE_GELU,
        (FusedFunction::GeluTanh, true) => Epilogue::CUBLASLT_EPILOGUE_GELU_BIAS,
    }
}

/// Limits for all algorithms: no reduction beyond that of a tile, bytes of workspace, alignment of weights.
fn make_preference(workspace: usize) -> Result<AlgorithmPreference, CublasError> {
    use sys::cublasLtMatmulPreferenceAttributes_t as Preferred;
    let preference = AlgorithmPreference(lt::create_matmul_pref()?);
    let whole = sys::cublasLtReductionScheme_t::CUBLASLT_REDUCTION_SCHEME_NONE as u32;
    preference.set_attribute(Preferred::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace as u64)?;
    preference.set_attribute(Preferred::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, whole)?;
    preference.set_attribute(Preferred::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, ALIGNMENT)?;
    Ok(preference)
}

/// Room for a result, in a state other than success.
fn nothing_found() -> sys::cublasLtMatmulHeuristicResult_t {
    sys::cublasLtMatmulHeuristicResult_t {
        algo: sys::cublasLtMatmulAlgo_t { data: [0; 8] },
        workspaceSize: 0,
        state: sys::cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED,
        wavesCount: 0.0,
        reserved: [0; 4],
    }
}

/// A setting of an algorithm.
fn algorithm_setting(
    algorithm: &sys::cublasLtMatmulAlgo_t,
    attribute: sys::cublasLtMatmulAlgoConfigAttributes_t,
) -> Option<i32> {
    use sys::cublasLtMatmulAlgoConfigAttributes_t as Setting;
    // The shape of a cluster has 16 bits, the lower ones of `value`; the other attributes here have 32.
    let size = if attribute == Setting::CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID { 2 } else { 4 };
    let (mut value, mut written) = (0_i32, 0);
    // SAFETY: cuBLASLt gave the algorithm; the call writes at most `size` bytes, and their number.
    let status = unsafe {
        let place = (&raw mut value).cast();
        sys::cublasLtMatmulAlgoConfigGetAttribute(algorithm, attribute, place, size, &raw mut written)
    };
    status.result().ok().map(|()| value)
}

/// True if an algorithm can add a matrix other than its output.
fn writes_apart(algorithm: &sys::cublasLtMatmulAlgo_t) -> bool {
    let (mut value, mut written) = (0_i32, 0);
    let attribute = sys::cublasLtMatmulAlgoCapAttributes_t::CUBLASLT_ALGO_CAP_OUT_OF_PLACE_RESULT_SUPPORT;
    // SAFETY: as in `algorithm_setting`.
    let status = unsafe {
        let place = (&raw mut value).cast();
        sys::cublasLtMatmulAlgoCapGetAttribute(algorithm, attribute, place, size_of::<i32>(), &raw mut written)
    };
    status.result().is_ok() && value != 0
}

/// An algorithm for the log: its distinguishing settings.
struct AlgorithmDescription<'a>(&'a sys::cublasLtMatmulAlgo_t);

impl fmt::Display for AlgorithmDescription<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use sys::cublasLtMatmulAlgoConfigAttributes_t as Setting;
        let settings = [
            ("algorithm", Setting::CUBLASLT_ALGO_CONFIG_ID),
            ("tile", Setting::CUBLASLT_ALGO_CONFIG_TILE_ID),
            ("stages", Setting::CUBLASLT_ALGO_CONFIG_STAGES_ID),
            ("cluster", Setting::CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID),
            ("option", Setting::CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION),
            ("parts", Setting::CUBLASLT_ALGO_CONFIG_SPLITK_NUM),
        ];
        for (name, attribute) in settings {
            write!(f, "{name} {} ", algorithm_setting(self.0, attribute).unwrap_or(-1))?;
        }
        Ok(())
    }
}

/// The library's handle, destroyed when dropped.
struct CublasHandle(sys::cublasLtHandle_t);

// SAFETY: cuBLASLt may be called from any thread with the same handle, also at the same time; the pointer is never
// followed here.
unsafe impl Send for CublasHandle {}
// SAFETY: as above.
unsafe impl Sync for CublasHandle {}

impl Drop for CublasHandle {
    fn drop(&mut self) {
        // SAFETY: cublasLtCreate gave it, and it is not used after this.
        let _ = unsafe { lt::destroy_handle(self.0) };
    }
}

/// The definition of a product: transpositions, epilogue, bias. Destroyed when dropped.
struct ProductDescriptor(sys::cublasLtMatmulDesc_t);

impl ProductDescriptor {
    /// `T` is the attribute's type in cuBLASLt.
    fn set_attribute<T: Copy>(
        &self,
        attribute: sys::cublasLtMatmulDescAttributes_t,
        value: T,
    ) -> Result<(), CublasError> {
        // SAFETY: the descriptor is whole; the value is copied before the call returns.
        unsafe { lt::set_matmul_desc_attribute(self.0, attribute, (&raw const value).cast(), size_of::<T>()) }
    }
}

impl Drop for ProductDescriptor {
    fn drop(&mut self) {
        // SAFETY: cublasLtMatmulDescCreate gave it, and it is not used after this.
        let _ = unsafe { lt::destroy_matmul_desc(self.0) };
    }
}

/// How a matrix lies in memory. Destroyed when dropped.
struct MatrixDescriptor(sys::cublasLtMatrixLayout_t);

impl MatrixDescriptor {
    /// Columns of the column-major matrix.
    fn set_columns(&self, columns: u64) -> Result<(), CublasError> {
        let attribute = sys::cublasLtMatrixLayoutAttribute_t::CUBLASLT_MATRIX_LAYOUT_COLS;
        // SAFETY: the descriptor is whole, and this attribute is a 64-bit number, copied before the call returns.
        unsafe { lt::set_matrix_layout_attribute(self.0, attribute, (&raw const columns).cast(), size_of::<u64>()) }
    }
}

impl Drop for MatrixDescriptor {
    fn drop(&mut self) {
        // SAFETY: cublasLtMatrixLayoutCreate gave it, and it is not used after this.
        let _ = unsafe { lt::destroy_matrix_layout(self.0) };
    }
}

/// The limits for the choice of an algorithm. Destroyed when dropped.
struct AlgorithmPreference(sys::cublasLtMatmulPreference_t);

impl AlgorithmPreference {
    /// `T` is the attribute's type in cuBLASLt.
    fn set_attribute<T: Copy>(
        &self,
        attribute: sys::cublasLtMatmulPreferenceAttributes_t,
        value: T,
    ) -> Result<(), CublasError> {
        // SAFETY: the descriptor is whole; the value is copied before the call returns.
        unsafe { lt::set_matmul_pref_attribute(self.0, attribute, (&raw const value).cast(), size_of::<T>()) }
    }
}

impl Drop for AlgorithmPreference {
    fn drop(&mut self) {
        // SAFETY: cublasLtMatmulPreferenceCreate gave it, and it is not used after this.
        let _ = unsafe { lt::destroy_matmul_pref(self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine;

    /// Descriptors are host memory: with the library they can be made without a device.
    #[test]
    fn descriptors_take_what_they_are_set_to() {
        if let Err(missing) = machine::cublaslt_version() {
            eprintln!("SKIPPED: {missing}");
            return;
        }
        for fused in [FusedFunction::Nothing, FusedFunction::Relu, FusedFunction::GeluTanh] {
            for (element, output_element) in [
                (ElementType::F32, ElementType::F32),
                (ElementType::Bf16, ElementType::Bf16),
                (ElementType::Bf16, ElementType::F32),
            ] {
                for bias in [false, true] {
                    let shape = Shape { inner: 64, out: 128, element, output_element, fused, bias, residual: false };
                    let plan = ProductPlan::new(shape).unwrap();
                    plan.set_rows(1).and_then(|()| plan.set_bias_address(256)).unwrap();
                }
            }
        }
        make_preference(0).and_then(|_| make_preference(WORKSPACE)).unwrap();
    }
}
