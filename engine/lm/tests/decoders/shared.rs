//! Shared work gives the same bits as separate work: the prefixes of decoders as a tree, the encoder's states of
//! several targets.

use super::fixture::Fixture;
use super::packed::{Packed, bits, by_sequence, logits};
use super::{DECODERS, ENCODER_DECODERS, on_each_cpu};
use hopeval_device::{Device, Packing, Reference};
use hopeval_lm::architectures::{open_decoder, open_encoder_decoder};
use hopeval_lm::model::EncoderMemory;
use hopeval_lm::{Decoder, PackedBatch};

/// A tree of segments: each has tokens and a parent segment.
const PARENTS: [Option<usize>; 6] = [None, Some(0), Some(0), Some(1), Some(1), None];
const LENGTHS: [usize; 6] = [9, 5, 1, 3, 12, 4];

fn path(mut segment: usize) -> Vec<usize> {
    let mut path = vec![segment];
    while let Some(parent) = PARENTS[segment] {
        path.push(parent);
        segment = parent;
    }
    path.reverse();
    path
}

fn tokens(segment: usize, vocabulary: usize) -> Vec<u32> {
    let token = |i: usize| (3 + (segment * 31 + i * 17) % (vocabulary - 3)) as u32;
    (0..LENGTHS[segment]).map(token).collect()
}

/// Every segment once, attending to its path.
fn of_tree<D: Device>(device: &D, model: &dyn Decoder<D>) -> Vec<Vec<f32>> {
    let vocabulary = model.sizes().vocabulary;
    let first = |segment: usize| LENGTHS[..segment].iter().sum::<usize>() as u32;
    let (mut ids, mut positions, mut packing) = (Vec::new(), Vec::new(), Packing::new());
    for (segment, length) in LENGTHS.into_iter().enumerate() {
        let path = path(segment);
        let before = path[..path.len() - 1].iter().map(|s| LENGTHS[*s]).sum::<usize>() as u32;
        ids.extend(tokens(segment, vocabulary));
        positions.extend(before..before + length as u32);
        packing.push(length, path.into_iter().map(|s| (first(s), LENGTHS[s] as u32)));
    }
    let batch = PackedBatch { ids: &ids, positions: &positions, type_ids: &[], packing: &packing };
    let states = model.forward(device, &batch, None).unwrap();
    by_sequence(device, &logits(device, model.head(), &states), &packing)
}

/// Every path from the root, one sequence each; returns the last segment of each.
fn flat<D: Device>(device: &D, model: &dyn Decoder<D>) -> Vec<Vec<f32>> {
    let vocabulary = model.sizes().vocabulary;
    let whole = |segment| path(segment).into_iter().flat_map(|s| tokens(s, vocabulary)).collect::<Vec<_>>();
    let sequences = (0..LENGTHS.len()).map(whole).collect::<Vec<_>>();
    let packed = Packed::new(sequences.iter().map(Vec::as_slice));
    let states = model.forward(device, &packed.batch(), None).unwrap();
    let rows = by_sequence(device, &logits(device, model.head(), &states), &packed.packing);
    rows.into_iter().zip(LENGTHS).map(|(rows, length)| rows[rows.len() - length * vocabulary..].to_vec()).collect()
}

fn tree<D: Device>(device: &D) {
    for name in DECODERS {
        let fixture = Fixture::open(name);
        let model = open_decoder(&fixture.checkpoint, device).unwrap();
        let (shared, flat) = (of_tree(device, model.as_ref()), flat(device, model.as_ref()));
        for (segment, (shared, flat)) in shared.iter().zip(&flat).enumerate() {
            assert!(bits(shared) == bits(flat), "{name}: segment {segment}");
        }
    }
}

/// Several targets over one encoded prompt, and each over its own copy.
fn states<D: Device>(device: &D) {
    for name in ENCODER_DECODERS {
        let fixture = Fixture::open(name);
        let model = open_encoder_decoder(&fixture.checkpoint, device).unwrap();
        let sequences = fixture.sequences();
        let prompt = sequences.last().unwrap().ids.as_slice();
        let targets = Packed::new(sequences.iter().map(|s| s.decoder_ids.as_slice()));
        let decode = |copies: usize| {
            let encoder = Packed::new(vec![prompt; copies]);
            let states = model.encode(device, &encoder.batch()).unwrap();
            let mut cross = Packing::new();
            for target in 0..sequences.len() {
                let rows = encoder.packing.query_rows(target % copies);
                cross.push(targets.packing.query_rows(target).len(), [(rows.start as u32, rows.len() as u32)]);
            }
            let hidden = model.decode(device, &targets.batch(), EncoderMemory::States(&states), &cross, None).unwrap();
            by_sequence(device, &logits(device, model.head(), &hidden), &targets.packing)
        };
        for (shared, own) in decode(1).iter().zip(decode(sequences.len())) {
            assert!(bits(shared) == bits(&own), "{name}");
        }
    }
}

#[test]
fn trees_on_the_reference() {
    tree(&Reference);
}

#[test]
fn trees_on_the_cpu() {
    on_each_cpu(tree);
}

#[test]
fn states_on_the_reference() {
    states(&Reference);
}

#[test]
fn states_on_the_cpu() {
    on_each_cpu(states);
}
