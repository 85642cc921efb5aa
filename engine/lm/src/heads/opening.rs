//! Finds and opens the heads of a checkpoint: by `architectures` in `config.json`, or by the tensors if that field
//! names a bare model or a class unknown to transformers (MDR's reader, a labeler without a class).

use super::pooling::Pooler;
use super::{CheckpointHeads, Pooling, SequenceClassifier, SpanReader, TokenClassifier};
use crate::LmError;
use crate::architectures::post_norm::{DenseLayer, encoder_weights};
use crate::architectures::{ModelFamily, bert, deberta, electra, identify, roberta, unsupported_type};
use crate::config::ModelConfig;
use crate::weights::Weights;
use hopeval_checkpoint::Checkpoint;
use hopeval_device::{Activation, Device};

/// Opens the heads of a checkpoint.
///
/// # Errors
/// [`LmError::Config`] for an architecture without a bidirectional encoder, or an unsupported value of a field;
/// [`LmError::Checkpoint`], naming the tensor, if a head promised by `architectures` is missing or has another shape;
/// [`LmError::Device`].
pub fn open<D: Device>(checkpoint: &Checkpoint, device: &D) -> Result<CheckpointHeads<D>, LmError> {
    let opener = HeadOpener::new(checkpoint, device)?;
    Ok(CheckpointHeads {
        folder: checkpoint.folder().to_owned(),
        token: opener.token_classifier()?,
        sequence: opener.sequence_classifier()?,
        reader: opener.span_reader()?,
    })
}

/// The head promised by the first of `architectures`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeclaredHead {
    Token,
    Sequence,
    /// EfficientRAG's class with both.
    Labeler,
    Reader,
    /// A bare model, or a class unknown to transformers.
    Nothing,
}

impl DeclaredHead {
    fn from_config(config: &ModelConfig<'_>) -> Result<Self, LmError> {
        let names = config.texts("architectures")?.unwrap_or_default();
        let name = names.first().copied().unwrap_or_default();
        let ends = [
            ("ForTokenClassification", Self::Token),
            ("ForSequenceClassification", Self::Sequence),
            ("ForSequenceTokenClassification", Self::Labeler),
            ("ForQuestionAnswering", Self::Reader),
        ];
        Ok(ends.iter().find(|(end, _)| name.ends_with(end)).map_or(Self::Nothing, |(_, declared)| *declared))
    }
}

/// The inputs for opening a checkpoint's heads.
struct HeadOpener<'a, D: Device> {
    checkpoint: &'a Checkpoint,
    config: ModelConfig<'a>,
    model_type: &'static str,
    declared: DeclaredHead,
    hidden: usize,
    root: Weights<'a, D>,
    encoder: Weights<'a, D>,
}

impl<'a, D: Device> HeadOpener<'a, D> {
    fn new(checkpoint: &'a Checkpoint, device: &'a D) -> Result<Self, LmError> {
        let config = ModelConfig::new(checkpoint);
        let (model_type, _) = identify(checkpoint)?;
        let prefix = match model_type {
            "bert" => bert::PREFIX,
            "deberta-v2" => deberta::PREFIX,
            "electra" => electra::PREFIX,
            "roberta" | "xlm-roberta" => roberta::PREFIX,
            _ => return Err(unsupported_type(&config, |wanted| wanted == ModelFamily::Encoder)),
        };
        let root = Weights::new(checkpoint, device);
        let encoder = encoder_weights(&root, prefix);
        let (declared, hidden) = (DeclaredHead::from_config(&config)?, config.size("hidden_size")?);
        Ok(Self { checkpoint, config, model_type, declared, hidden, root, encoder })
    }

    fn token_classifier(&self) -> Result<Option<TokenClassifier<D>>, LmError> {
        let of_labeler = self.declared == DeclaredHead::Labeler || self.root.has("token_classifier.weight");
        let stock = match self.declared {
            DeclaredHead::Nothing => self.root.has("classifier.weight") && self.stock_pooler().is_none(),
            declared => declared == DeclaredHead::Token,
        };
        let (name, labels) = match (of_labeler, stock) {
            (true, _) => ("token_classifier", self.label_names(self.tensor_rows("token_classifier.weight", 2))?),
            (false, true) => ("classifier", self.declared_labels("classifier.weight")?),
            (false, false) => return Ok(None),
        };
        let classifier = DenseLayer::open(&self.root.under(name), labels.len(), self.hidden)?;
        Ok(Some(TokenClassifier { labels, classifier }))
    }

    fn sequence_classifier(&self) -> Result<Option<SequenceClassifier<D>>, LmError> {
        if self.declared == DeclaredHead::Labeler || self.root.has("sequence_classifier.weight") {
            return self.labelers_sequence_classifier().map(Some);
        }
        let promised = match self.declared {
            DeclaredHead::Nothing => {
                self.root.has("classifier.out_proj.weight")
                    || self.root.has("classifier.weight") && self.stock_pooler().is_some()
            }
            declared => declared == DeclaredHead::Sequence,
        };
        if !promised {
            return Ok(None);
        }
        let (dense, activation, name) = match self.model_type {
            "roberta" | "xlm-roberta" => (self.root.under("classifier.dense"), Activation::Tanh, "classifier.out_proj"),
            "electra" => (self.root.under("classifier.dense"), Activation::Gelu, "classifier.out_proj"),
            "deberta-v2" => (self.root.under("pooler.dense"), self.pooler_activation()?, "classifier"),
            _ => (self.encoder.under("pooler.dense"), Activation::Tanh, "classifier"),
        };
        let dense = DenseLayer::open(&dense, self.hidden, self.hidden)?;
        let labels = self.declared_labels(&format!("{name}.weight"))?;
        let classifier = DenseLayer::open(&self.root.under(name), labels.len(), self.hidden)?;
        let pooler = Pooler { pooling: Pooling::Cls, dense: Some((dense, activation)) };
        Ok(Some(SequenceClassifier { labels, pooler, classifier }))
    }

    /// EfficientRAG's tagger. `classifier_pooling` of `config.json` chooses the pooled vector (ModernBERT's field:
    /// `cls` or `mean`). If it is missing, the tagger pools the first token if there is a `pooler.dense` (the authors'
    /// code), else the mean (the paper, section 3.1: average pooling and a linear layer). The projection `pooler.dense`
    /// is applied if it exists. Two or three labels are the method's tags.
    fn labelers_sequence_classifier(&self) -> Result<SequenceClassifier<D>, LmError> {
        let pooler = self.stock_pooler();
        let default = if pooler.is_some() { "cls" } else { "mean" };
        let pooling = match self.config.one_of("classifier_pooling", &["cls", "mean"], default)? {
            "cls" => Pooling::Cls,
            _ => Pooling::Mean,
        };
        let activation = self.pooler_activation()?;
        let open = |weights: Weights<'_, D>| DenseLayer::open(&weights, self.hidden, self.hidden);
        let dense = pooler.map(open).transpose()?.map(|dense| (dense, activation));
        let labels = match self.tensor_rows("sequence_classifier.weight", 3) {
            count @ 2..=3 => ["<CONTINUE>", "<TERMINATE>", "<FINISH>"][..count].iter().map(|&tag| tag.into()).collect(),
            count => self.label_names(count)?,
        };
        let classifier = DenseLayer::open(&self.root.under("sequence_classifier"), labels.len(), self.hidden)?;
        Ok(SequenceClassifier { labels, pooler: Pooler { pooling, dense }, classifier })
    }

    fn span_reader(&self) -> Result<Option<SpanReader<D>>, LmError> {
        if self.declared != DeclaredHead::Reader && !self.root.has("qa_outputs.weight") {
            return Ok(None);
        }
        let spans = DenseLayer::open(&self.root.under("qa_outputs"), 2, self.hidden)?;
        if !self.root.has("rank.weight") {
            return Ok(Some(SpanReader { spans, rank: None }));
        }
        // MDR has BERT's pooler, or its own if the encoder has no pooler (ELECTRA).
        let pooler = self.stock_pooler().unwrap_or_else(|| self.root.under("pooler.dense"));
        let dense = Some((DenseLayer::open(&pooler, self.hidden, self.hidden)?, Activation::Tanh));
        let rank = DenseLayer::open(&self.root.under("rank"), 1, self.hidden)?;
        Ok(Some(SpanReader { spans, rank: Some((Pooler { pooling: Pooling::Cls, dense }, rank)) }))
    }

    /// `pooler.dense`, beside the encoder or in it, if the checkpoint has one.
    fn stock_pooler(&self) -> Option<Weights<'a, D>> {
        let places = [&self.root, &self.encoder].map(|weights| weights.under("pooler.dense"));
        places.into_iter().find(|weights| weights.has("weight"))
    }

    /// DeBERTa configures its own; BERT's is tanh.
    fn pooler_activation(&self) -> Result<Activation, LmError> {
        let default = if self.model_type == "deberta-v2" { "gelu" } else { "tanh" };
        self.config.activation("pooler_hidden_act", default)
    }

    /// Names of the configured labels, or of one label for each row of the tensor if the configuration has no labels.
    fn declared_labels(&self, tensor: &str) -> Result<Vec<String>, LmError> {
        let named = self.config.section("id2label")?.map_or(0, |names| names.fields().count());
        let declared = if named > 0 { Some(named) } else { self.config.optional_integer("num_labels")? };
        self.label_names(declared.unwrap_or_else(|| self.tensor_rows(tensor, 2)))
    }

    /// Names of `count` labels: those of `id2label` if their number is the same, else transformers' default names.
    fn label_names(&self, count: usize) -> Result<Vec<String>, LmError> {
        if count == 0 {
            return Err(self.config.field_error("num_labels", "expected a whole number above 0, found 0"));
        }
        let names = self.config.section("id2label")?.filter(|names| names.fields().count() == count);
        let name = |index: usize| {
            let given = names.as_ref().map(|names| names.text(&index.to_string())).transpose()?.flatten();
            Ok(given.map_or_else(|| format!("LABEL_{index}"), str::to_owned))
        };
        (0..count).map(name).collect()
    }

    /// Rows of a tensor of the root, or `default` if it is missing; opening the tensor then reports the error.
    fn tensor_rows(&self, tensor: &str, default: usize) -> usize {
        self.checkpoint.get(tensor).and_then(|tensor| tensor.shape.first().copied()).unwrap_or(default)
    }
}
