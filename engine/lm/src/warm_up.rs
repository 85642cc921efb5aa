//! Runs a model once before its first request, on devices that want it: what a device loads or chooses at its first use
//! then belongs to no request, and what it cannot do is an error before there is one.
//!
//! The passes are the engine's own over a few made-up tokens. Their results are dropped with the caches that they used,
//! and nothing is counted: an engine's accounts begin with its first request.

use crate::generate::{GenerativeModel, Generator};
use crate::loaded_model::LoadedModel;
use crate::request::{EncodeRequest, EncoderOutput, GenerateRequest, Sampling, ScoreRequest, TokenIds};
use crate::score;
use crate::states_pool::StatesPool;
use hopeval_device::energy::WorkPiece;
use hopeval_device::{Device, DeviceEnergy, DeviceError};
use std::time::Instant;

/// Every vocabulary has these, and every model so many positions.
const IDS: [u32; 2] = [0, 1];

/// Rows of the caches for two tokens and their continuations of two.
const ROWS: usize = 8;

/// All outputs of heads.
const OUTPUTS: [EncoderOutput; 5] =
    [EncoderOutput::Labels, EncoderOutput::Logits, EncoderOutput::Span, EncoderOutput::Mean, EncoderOutput::First];

/// Warms the device up for batches of at most `batch_tokens` tokens. Time and energy are told to the log.
///
/// # Errors
/// [`DeviceError::Unsupported`] if the device cannot run the model's scores or outputs, [`DeviceError::Lost`]. Memory
/// that runs out is none: batches find out how much there is.
pub(crate) fn warm_up<D: Device>(device: &D, model: &LoadedModel<D>, batch_tokens: usize) -> Result<(), DeviceError> {
    let (begun, energy) = (Instant::now(), device.energy().map(DeviceEnergy::begin));
    let mut is_wanted = false;
    let done = device.warm_up(batch_tokens, || {
        is_wanted = true;
        run_all(device, model)
    });
    let joules = energy.and_then(WorkPiece::end).map_or_else(String::new, |joules| format!(", {joules:.0} J"));
    // The first batch has not to do with it.
    let choosing = device.take_preparation();
    if is_wanted {
        let taken = begun.elapsed();
        tracing::info!("warmed the device up in {taken:.1?}, {choosing:.1?} of it to choose algorithms{joules}");
    }
    match done {
        Err(error @ DeviceError::OutOfMemory { .. }) => {
            tracing::debug!("not all is warmed up: {error}");
            Ok(())
        }
        done => done,
    }
}

/// One request of each sort.
fn run_all<D: Device>(device: &D, model: &LoadedModel<D>) -> Result<(), DeviceError> {
    let (ids, target): (TokenIds, TokenIds) = (IDS.as_slice().into(), IDS[..1].into());
    let score = ScoreRequest { prompt: ids.clone(), target, temperatures: vec![1.0] };
    match model {
        LoadedModel::Encoder(model) => {
            let tasks = model.tasks();
            let wanted = OUTPUTS.into_iter().filter(|want| tasks.contains(&want.task()));
            let requests = wanted.map(|want| EncodeRequest { ids: ids.clone(), type_ids: TokenIds::default(), want });
            let requests: Vec<_> = requests.collect();
            drop(model.answer_batch(device, &requests.iter().collect::<Vec<_>>())?);
            Ok(())
        }
        LoadedModel::Decoder(model) => {
            drop(score::with_decoder(device, &**model, &[&score], true)?);
            generate(device, GenerativeModel::Decoder(&**model), None, ids)
        }
        LoadedModel::EncoderDecoder(model) => {
            let mut pool = StatesPool::reserve(device, ROWS, model.sizes().hidden)?;
            drop(score::with_encoder_decoder(device, &**model, &mut pool, &[&score])?);
            generate(device, GenerativeModel::EncoderDecoder(&**model), Some(&mut pool), ids)
        }
    }
}

/// Continues `ids` by two tokens. A device that can score but not continue is told to the log: its continuations are
/// refused, if there are any.
fn generate<D: Device>(
    device: &D,
    model: GenerativeModel<'_, D>,
    pool: Option<&mut StatesPool<D>>,
    ids: TokenIds,
) -> Result<(), DeviceError> {
    let run = || {
        let mut generator = Generator::new(device, &model, ROWS as u32, false)?;
        let request =
            GenerateRequest { prompt: ids, max_tokens: 2, sampling: Sampling::Greedy, stop: vec![], ends: vec![] };
        generator.admit(device, &model, pool, None, &[(0, request)], 0)?;
        while !generator.is_empty() {
            if let Some((_, error)) = generator.step(device, &model, None).failed.pop() {
                return Err(error);
            }
        }
        Ok(())
    };
    match run() {
        Err(error @ DeviceError::Unsupported { .. }) => {
            tracing::warn!("continuations will be refused: {error}");
            Ok(())
        }
        done => done,
    }
}
