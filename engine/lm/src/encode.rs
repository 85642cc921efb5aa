//! Answers encoder requests: one pass over the packed sequences, then the wanted heads.

use crate::heads::{HeadKind, HostRows, Pooling};
use crate::loaded_model::EncoderWithHeads;
use crate::request::{EncodeRequest, EncodeResult, EncoderOutput};
use crate::score::{BatchResults, PackedSequences};
use hopeval_device::{Device, DeviceError, Packing};
use std::collections::BTreeMap;
use std::ops::Range;

impl<D: Device> EncoderWithHeads<D> {
    /// The supported tasks, by the names of their commands.
    pub fn tasks(&self) -> Vec<&'static str> {
        let kinds = self.heads.kinds();
        let mut tasks = Vec::new();
        if kinds.contains(&HeadKind::TokenClassifier) {
            tasks.push("label");
        }
        if kinds.contains(&HeadKind::SequenceClassifier) {
            tasks.push("classify");
        }
        if kinds.contains(&HeadKind::SpanReader) {
            tasks.push("read");
        }
        tasks.push("embed");
        tasks
    }

    /// Answers a batch.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`].
    pub fn answer_batch(
        &self,
        device: &D,
        requests: &[&EncodeRequest],
    ) -> Result<BatchResults<EncodeResult>, DeviceError> {
        let mut sequences = PackedSequences::default();
        let typed = self.encoder.type_vocabulary() > 0 && requests.iter().any(|request| !request.type_ids.is_empty());
        for request in requests {
            sequences.push(request.ids.iter().copied());
            if typed {
                sequences.type_ids.extend(request.type_ids.iter());
                // Requests without types get type 0.
                sequences.type_ids.resize(sequences.ids.len(), 0);
            }
        }
        let states = self.encoder.encode(device, &sequences.batch())?;
        let mut by_want: BTreeMap<EncoderOutput, Vec<usize>> = BTreeMap::new();
        for (n, request) in requests.iter().enumerate() {
            by_want.entry(request.want).or_default().push(n);
        }
        let mut results = vec![EncodeResult::default(); requests.len()];
        for (want, members) in by_want {
            let answers = if members.len() == requests.len() {
                self.heads_of(device, &states, sequences.packing(), want)?
            } else {
                let packing = sequences.packing();
                let rows =
                    members.iter().flat_map(|n| packing.query_rows(*n)).map(|row| row as u32).collect::<Vec<_>>();
                let part = Packing::of_lengths(members.iter().map(|n| packing.query_rows(*n).len()));
                self.heads_of(device, &device.gather(&states, &rows)?, &part, want)?
            };
            for (n, answer) in members.into_iter().zip(answers) {
                results[n] = answer;
            }
        }
        Ok(BatchResults { results, computed_tokens: sequences.ids.len() as u64 })
    }

    /// One answer for each sequence of `packing`.
    fn heads_of(
        &self,
        device: &D,
        states: &D::Tensor,
        packing: &Packing,
        want: EncoderOutput,
    ) -> Result<Vec<EncodeResult>, DeviceError> {
        let mut answers = vec![EncodeResult::default(); packing.len()];
        if let (EncoderOutput::Labels, Ok(head)) = (want, self.heads.token_classifier()) {
            let logits = head.logits(device, states)?;
            for (n, answer) in answers.iter_mut().enumerate() {
                let Range { start, end } = packing.query_rows(n);
                let values = logits.values[start * logits.columns..end * logits.columns].to_vec();
                answer.token_logits = HostRows { columns: logits.columns, values };
            }
        }
        if let (EncoderOutput::Labels | EncoderOutput::Logits, Ok(head)) = (want, self.heads.sequence_classifier()) {
            set_each(&mut answers, &head.logits(device, states, packing)?, |answer, row| answer.sequence_logits = row);
        }
        if let (EncoderOutput::Span, Ok(head)) = (want, self.heads.span_reader()) {
            let logits = head.read(device, states, packing)?;
            for (n, answer) in answers.iter_mut().enumerate() {
                answer.start_logits = logits.start[packing.query_rows(n)].to_vec();
                answer.end_logits = logits.end[packing.query_rows(n)].to_vec();
                answer.rank = logits.rank.as_ref().map(|rank| rank[n]);
            }
        }
        let pooling = match want {
            EncoderOutput::Mean => Pooling::Mean,
            EncoderOutput::First => Pooling::Cls,
            _ => return Ok(answers),
        };
        set_each(&mut answers, &pooling.embed(device, states, packing, false)?, |answer, row| answer.embedding = row);
        Ok(answers)
    }
}

fn set_each(answers: &mut [EncodeResult], rows: &HostRows, set: impl Fn(&mut EncodeResult, Vec<f32>)) {
    answers.iter_mut().zip(rows.iter()).for_each(|(answer, row)| set(answer, row.to_vec()));
}
