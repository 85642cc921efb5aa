//! Answers encoder requests: one pass over the packed sequences, then the wanted heads.

use crate::heads::{HeadKind, HostRows, Pooling, SpanLogits};
use crate::loaded_model::EncoderWithHeads;
use crate::request::{EncodeRequest, EncodeResult, EncoderOutput};
use crate::score::{BatchResults, PackedSequences};
use hopeval_device::{Device, DeviceError, Packing, PendingRead};
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

    /// Requests the answers of a batch.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`].
    pub fn answer_batch(
        &self,
        device: &D,
        requests: &[&EncodeRequest],
    ) -> Result<PendingRead<BatchResults<EncodeResult>>, DeviceError> {
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
        let mut parts = Vec::with_capacity(by_want.len());
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
            parts.push(answers.map(move |answers| members.into_iter().zip(answers).collect::<Vec<_>>()));
        }
        let computed_tokens = sequences.ids.len() as u64;
        let mut results = vec![EncodeResult::default(); requests.len()];
        Ok(PendingRead::all(parts).map(move |parts| {
            parts.into_iter().flatten().for_each(|(n, answer)| results[n] = answer);
            BatchResults { results, computed_tokens }
        }))
    }

    /// Requests one answer for each sequence of `packing`.
    fn heads_of(
        &self,
        device: &D,
        states: &D::Tensor,
        packing: &Packing,
        want: EncoderOutput,
    ) -> Result<PendingRead<Vec<EncodeResult>>, DeviceError> {
        let tokens = match (want, self.heads.token_classifier()) {
            (EncoderOutput::Labels, Ok(head)) => Some(head.logits(device, states)?),
            _ => None,
        };
        let sequences = match (want, self.heads.sequence_classifier()) {
            (EncoderOutput::Labels | EncoderOutput::Logits, Ok(head)) => Some(head.logits(device, states, packing)?),
            _ => None,
        };
        let spans = match (want, self.heads.span_reader()) {
            (EncoderOutput::Span, Ok(head)) => Some(head.logits(device, states, packing)?),
            _ => None,
        };
        let pooling = match want {
            EncoderOutput::Mean => Some(Pooling::Mean),
            EncoderOutput::First => Some(Pooling::Cls),
            _ => None,
        };
        let embeddings = pooling.map(|pooling| pooling.embed(device, states, packing, false)).transpose()?;
        let rows = (0..packing.len()).map(|n| packing.query_rows(n)).collect::<Vec<_>>();
        let found = PendingRead::optional(tokens).zip(PendingRead::optional(sequences));
        let found = found.zip(PendingRead::optional(spans).zip(PendingRead::optional(embeddings)));
        Ok(found.map(move |((tokens, sequences), (spans, embeddings))| {
            let found = FoundOutputs { tokens, sequences, spans, embeddings };
            rows.into_iter().enumerate().map(|(n, rows)| found.answer(n, rows)).collect()
        }))
    }
}

/// The wanted outputs of all sequences.
struct FoundOutputs {
    /// A row for each token.
    tokens: Option<HostRows>,
    /// A row for each sequence.
    sequences: Option<HostRows>,
    spans: Option<SpanLogits>,
    /// A row for each sequence.
    embeddings: Option<HostRows>,
}

impl FoundOutputs {
    /// The answer for the sequence with this number, whose tokens have these rows.
    fn answer(&self, sequence: usize, rows: Range<usize>) -> EncodeResult {
        let row = |found: &Option<HostRows>| found.as_ref().map_or_else(Vec::new, |rows| rows.row(sequence).to_vec());
        let mut answer = EncodeResult {
            sequence_logits: row(&self.sequences),
            embedding: row(&self.embeddings),
            ..EncodeResult::default()
        };
        if let Some(HostRows { columns, values }) = &self.tokens {
            let values = values[rows.start * columns..rows.end * columns].to_vec();
            answer.token_logits = HostRows { columns: *columns, values };
        }
        if let Some(SpanLogits { start, end, rank }) = &self.spans {
            answer.start_logits = start[rows.clone()].to_vec();
            answer.end_logits = end[rows].to_vec();
            answer.rank = rank.as_ref().map(|rank| rank[sequence]);
        }
        answer
    }
}
