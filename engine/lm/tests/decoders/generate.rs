//! Greedy generation with a cache: all prompts of a fixture in one batch, 64 tokens each, the exact ids of
//! transformers. Every step's logits equal those of one pass over the whole sequence, to the bit.

use super::fixture::{Fixture, Generation};
use super::packed::{Packed, bits, by_sequence, logits, side_by_side};
use super::{DECODERS, ENCODER_DECODERS, on_each_cpu};
use hopeval_device::{Device, Packing, Reference};
use hopeval_lm::architectures::{open_decoder, open_encoder_decoder};
use hopeval_lm::model::{CacheSlots, EncoderMemory};
use hopeval_lm::{KeyValueCache, PackedBatch};

/// A cache with equal room for every sequence, filled token by token.
struct Growing<D: Device> {
    cache: KeyValueCache<D>,
    room: usize,
    /// The current tokens of each sequence.
    ids: Vec<Vec<u32>>,
    /// The number of its tokens in the cache.
    cached: Vec<usize>,
    /// Logits of every output row, sequence by sequence.
    logits: Vec<Vec<f32>>,
}

impl<D: Device> Growing<D> {
    fn new(device: &D, layers: usize, width: usize, prompts: Vec<Vec<u32>>, tokens: usize) -> Self {
        let sequences = prompts.len();
        let room = prompts.iter().map(Vec::len).max().unwrap() + tokens;
        let cache = KeyValueCache::reserve(device, layers, sequences * room, width).unwrap();
        Self { cache, room, ids: prompts, cached: vec![0; sequences], logits: vec![Vec::new(); sequences] }
    }

    /// One step: gives the batch of uncached tokens to `pass`, gets logits, and takes the best tokens.
    fn step(&mut self, device: &D, pass: impl FnOnce(&PackedBatch<'_>, CacheSlots<'_, D>) -> D::Tensor) {
        let (mut ids, mut positions, mut rows) = (Vec::new(), Vec::new(), Vec::new());
        let mut packing = Packing::new();
        for (s, (all, cached)) in self.ids.iter().zip(&mut self.cached).enumerate() {
            let first = (s * self.room) as u32;
            ids.extend(&all[*cached..]);
            positions.extend(*cached as u32..all.len() as u32);
            rows.extend(first + *cached as u32..first + all.len() as u32);
            packing.push(all.len() - *cached, [(first, all.len() as u32)]);
            *cached = all.len();
        }
        let batch = PackedBatch { ids: &ids, positions: &positions, type_ids: &[], packing: &packing };
        let out = pass(&batch, CacheSlots { cache: &mut self.cache, rows: &rows });
        let vocabulary = device.shape(&out).1;
        for (s, values) in by_sequence(device, &out, &packing).into_iter().enumerate() {
            let last = &values[values.len() - vocabulary..];
            let best = (0..vocabulary).max_by(|a, b| last[*a].total_cmp(&last[*b]).then(b.cmp(a))).unwrap();
            self.ids[s].push(best as u32);
            self.logits[s].extend(values);
        }
    }

    /// Without the last token, because no pass has read it.
    fn read(&self) -> Packed {
        Packed::new(self.ids.iter().map(|ids| &ids[..ids.len() - 1]))
    }

    fn check(&self, name: &str, expected: &[Generation], uncached: &[Vec<f32>]) {
        for (s, expected) in expected.iter().enumerate() {
            let made = &self.ids[s][self.ids[s].len() - expected.ids.len()..];
            assert_eq!(made, expected.ids, "{name}: prompt of {} tokens", expected.prompt.len());
            assert!(bits(&self.logits[s]) == bits(&uncached[s]), "{name}: cached steps differ from one pass");
        }
    }
}

fn generations<D: Device>(device: &D) {
    for name in DECODERS {
        let fixture = Fixture::open(name);
        let model = open_decoder(&fixture.checkpoint, device).unwrap();
        let (expected, sizes) = (fixture.generations(), model.sizes());
        let (prompts, tokens) = (expected.iter().map(|g| g.prompt.clone()).collect(), expected[0].ids.len());
        assert_eq!(tokens, 64);
        let mut growing = Growing::new(device, sizes.layers, sizes.kv_width, prompts, tokens);
        for _ in 0..tokens {
            growing.step(device, |batch, slots| {
                logits(device, model.head(), &model.forward(device, batch, Some(slots)).unwrap())
            });
        }
        let read = growing.read();
        let states = model.forward(device, &read.batch(), None).unwrap();
        growing.check(name, &expected, &by_sequence(device, &logits(device, model.head(), &states), &read.packing));
    }
}

/// The encoder's states are projected once for all steps; the pass without a cache projects them itself.
fn encoder_decoder_generations<D: Device>(device: &D) {
    for name in ENCODER_DECODERS {
        let fixture = Fixture::open(name);
        let model = open_encoder_decoder(&fixture.checkpoint, device).unwrap();
        let (expected, sizes) = (fixture.generations(), model.sizes());
        let tokens = expected[0].ids.len();
        let encoder = Packed::new(expected.iter().map(|g| g.prompt.as_slice()));
        let states = model.encode(device, &encoder.batch()).unwrap();
        let projected = model.project(device, &states).unwrap();
        let starts = vec![vec![model.decoder_start()]; expected.len()];
        let mut growing = Growing::new(device, sizes.layers, sizes.kv_width, starts, tokens);
        for _ in 0..tokens {
            growing.step(device, |batch, slots| {
                let cross = side_by_side(batch.packing, &encoder.packing);
                let memory = EncoderMemory::Projected(&projected);
                logits(device, model.head(), &model.decode(device, batch, memory, &cross, Some(slots)).unwrap())
            });
        }
        let read = growing.read();
        let cross = side_by_side(&read.packing, &encoder.packing);
        let states = model.decode(device, &read.batch(), EncoderMemory::States(&states), &cross, None).unwrap();
        growing.check(name, &expected, &by_sequence(device, &logits(device, model.head(), &states), &read.packing));
    }
}

#[test]
fn decoders_generate_on_the_reference() {
    generations(&Reference);
}

#[test]
fn encoder_decoders_generate_on_the_reference() {
    encoder_decoder_generations(&Reference);
}

#[test]
fn decoders_generate_on_the_cpu() {
    on_each_cpu(generations);
}

#[test]
fn encoder_decoders_generate_on_the_cpu() {
    on_each_cpu(encoder_decoder_generations);
}
