//! Many sequences in one batch, and the output of each; alone, each gives the same bits.

use super::fixture::{Fixture, Score, Sequence, TEMPERATURES};
use super::{DECODERS, ENCODER_DECODERS, on_each_cpu};
use hopeval_device::{Device, Epilogue, Packing, Reference};
use hopeval_lm::architectures::{open_decoder, open_encoder_decoder};
use hopeval_lm::model::EncoderMemory;
use hopeval_lm::{Decoder, EncoderDecoder, LmHead, PackedBatch};

/// Sequences one after the other.
pub(crate) struct Packed {
    pub(crate) ids: Vec<u32>,
    pub(crate) positions: Vec<u32>,
    pub(crate) packing: Packing,
}

impl Packed {
    pub(crate) fn new<'a>(sequences: impl IntoIterator<Item = &'a [u32]>) -> Self {
        let sequences = sequences.into_iter().collect::<Vec<_>>();
        Self {
            ids: sequences.concat(),
            positions: sequences.iter().flat_map(|ids| 0..ids.len() as u32).collect(),
            packing: Packing::of_lengths(sequences.iter().map(|ids| ids.len())),
        }
    }

    pub(crate) fn batch(&self) -> PackedBatch<'_> {
        PackedBatch { ids: &self.ids, positions: &self.positions, type_ids: &[], packing: &self.packing }
    }
}

/// Lets every decoder sequence attend to the encoder sequence of the same number.
pub(crate) fn side_by_side(decoder: &Packing, encoder: &Packing) -> Packing {
    let mut cross = Packing::new();
    for sequence in 0..decoder.len() {
        let states = encoder.query_rows(sequence);
        cross.push(decoder.query_rows(sequence).len(), [(states.start as u32, states.len() as u32)]);
    }
    cross
}

/// Rows of a tensor, grouped by sequence.
pub(crate) fn by_sequence<D: Device>(device: &D, x: &D::Tensor, packing: &Packing) -> Vec<Vec<f32>> {
    let (values, columns) = (device.read_tensor(x).unwrap(), device.shape(x).1);
    (0..packing.len())
        .map(|s| packing.query_rows(s))
        .map(|rows| values[rows.start * columns..rows.end * columns].to_vec())
        .collect()
}

/// The head for every row.
pub(crate) fn logits<D: Device>(device: &D, head: &LmHead<D>, x: &D::Tensor) -> D::Tensor {
    let epilogue = Epilogue { scale: head.scale, ..Epilogue::bias(head.bias.as_ref()) };
    device.linear(x, &head.weight, epilogue).unwrap()
}

pub(crate) fn logits_of_decoder<D: Device>(
    device: &D,
    model: &dyn Decoder<D>,
    sequences: &[Sequence],
) -> Vec<Vec<f32>> {
    let packed = Packed::new(sequences.iter().map(|s| s.ids.as_slice()));
    let states = model.forward(device, &packed.batch(), None).unwrap();
    by_sequence(device, &logits(device, model.head(), &states), &packed.packing)
}

/// Encoder states, and logits of the decoder's input.
pub(crate) fn logits_of_encoder_decoder<D: Device>(
    device: &D,
    model: &dyn EncoderDecoder<D>,
    sequences: &[Sequence],
) -> (Vec<Vec<f32>>, Vec<Vec<f32>>) {
    let encoder = Packed::new(sequences.iter().map(|s| s.ids.as_slice()));
    let decoder = Packed::new(sequences.iter().map(|s| s.decoder_ids.as_slice()));
    let states = model.encode(device, &encoder.batch()).unwrap();
    let cross = side_by_side(&decoder.packing, &encoder.packing);
    let hidden = model.decode(device, &decoder.batch(), EncoderMemory::States(&states), &cross, None).unwrap();
    let logits = logits(device, model.head(), &hidden);
    (by_sequence(device, &states, &encoder.packing), by_sequence(device, &logits, &decoder.packing))
}

/// Log-probabilities of the targets of these rows, temperature by temperature for each score.
fn log_probs<D: Device>(device: &D, head: &LmHead<D>, x: &D::Tensor, scores: &[Score]) -> Vec<Vec<f32>> {
    let targets = scores.iter().flat_map(|score| score.target.iter().copied()).collect::<Vec<_>>();
    let found = device.log_probs(x, &head.weight, head.bias.as_ref(), head.scale, &targets, &TEMPERATURES).unwrap();
    let at = |row: usize, t: usize| {
        found.target_logits[row] / TEMPERATURES[t] - found.log_sum_exps[row * TEMPERATURES.len() + t]
    };
    let mut first = 0;
    let mut of = |score: &Score| {
        let rows = first..first + score.target.len();
        first = rows.end;
        (0..TEMPERATURES.len()).flat_map(|t| rows.clone().map(move |row| at(row, t))).collect()
    };
    scores.iter().map(&mut of).collect()
}

pub(crate) fn scores_of_decoder<D: Device>(device: &D, model: &dyn Decoder<D>, scores: &[Score]) -> Vec<Vec<f32>> {
    let sequences = scores.iter().map(|s| [s.prompt.as_slice(), &s.target].concat()).collect::<Vec<_>>();
    let packed = Packed::new(sequences.iter().map(Vec::as_slice));
    let states = model.forward(device, &packed.batch(), None).unwrap();
    // The row before a token predicts it.
    let rows = |(s, score): (usize, &Score)| {
        let end = packed.packing.query_rows(s).end as u32 - 1;
        end - score.target.len() as u32..end
    };
    let rows = scores.iter().enumerate().flat_map(rows).collect::<Vec<_>>();
    log_probs(device, model.head(), &device.gather(&states, &rows).unwrap(), scores)
}

pub(crate) fn scores_of_encoder_decoder<D: Device>(
    device: &D,
    model: &dyn EncoderDecoder<D>,
    scores: &[Score],
) -> Vec<Vec<f32>> {
    let shifted = |s: &Score| [&[model.decoder_start()], &s.target[..s.target.len() - 1]].concat();
    let inputs = scores.iter().map(shifted).collect::<Vec<_>>();
    let encoder = Packed::new(scores.iter().map(|s| s.prompt.as_slice()));
    let decoder = Packed::new(inputs.iter().map(Vec::as_slice));
    let states = model.encode(device, &encoder.batch()).unwrap();
    let cross = side_by_side(&decoder.packing, &encoder.packing);
    let hidden = model.decode(device, &decoder.batch(), EncoderMemory::States(&states), &cross, None).unwrap();
    log_probs(device, model.head(), &hidden, scores)
}

pub(crate) fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

/// A sequence gives the same bits alone as in a batch.
fn alone<D: Device>(device: &D) {
    for name in DECODERS {
        let fixture = Fixture::open(name);
        let model = open_decoder(&fixture.checkpoint, device).unwrap();
        let together = logits_of_decoder(device, model.as_ref(), &fixture.sequences());
        for (sequence, together) in fixture.sequences().chunks(1).zip(together) {
            let alone = logits_of_decoder(device, model.as_ref(), sequence);
            assert_eq!(bits(&alone[0]), bits(&together), "{name}: {} tokens", sequence[0].ids.len());
        }
    }
    for name in ENCODER_DECODERS {
        let fixture = Fixture::open(name);
        let model = open_encoder_decoder(&fixture.checkpoint, device).unwrap();
        let (_, together) = logits_of_encoder_decoder(device, model.as_ref(), &fixture.sequences());
        for (sequence, together) in fixture.sequences().chunks(1).zip(together) {
            let (_, alone) = logits_of_encoder_decoder(device, model.as_ref(), sequence);
            assert_eq!(bits(&alone[0]), bits(&together), "{name}: {} tokens", sequence[0].ids.len());
        }
    }
}

#[test]
fn alone_on_the_reference() {
    alone(&Reference);
}

#[test]
fn alone_on_the_cpu() {
    on_each_cpu(alone);
}
