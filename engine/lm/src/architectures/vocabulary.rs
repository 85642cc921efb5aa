//! The embedding of tokens and the language-model head, often one matrix.

use crate::{LmError, LmHead, Weights};
use hopeval_device::{Device, HostTensor, WeightLayout};

/// The name of the head's weight, outside every prefix.
const HEAD: &str = "lm_head.weight";

/// Both ends of a language model.
pub(super) struct Vocabulary<D: Device> {
    /// `[vocabulary, width]`; `None` if the head's weight serves as table.
    table: Option<D::Matrix>,
    head: LmHead<D>,
}

impl<D: Device> Vocabulary<D> {
    /// Opens the table `name` under the prefix of `weights`, `[vocabulary, width]`, and the head under the prefix of
    /// `root`.
    ///
    /// They are tied as in transformers 5 (`PreTrainedModel.tie_weights`). If the configuration ties them and one of
    /// the two is missing, the other takes its place. If both exist and differ, each is used as it is, whatever the
    /// configuration says. Transformers 4 differs in the last case only: it drops the head after reading it.
    pub(super) fn open(
        root: &Weights<'_, D>,
        weights: &Weights<'_, D>,
        name: &str,
        (vocabulary, width): (usize, usize),
        tied: bool,
    ) -> Result<Self, LmError> {
        let shape = [vocabulary, width];
        let device = root.device();
        let matrix = |tensor: HostTensor| device.load_matrix(&[tensor], WeightLayout::OutIn);
        let head = |weight| LmHead { weight, bias: None, scale: 1.0, vocabulary };
        if !weights.has(name) && tied && root.has(HEAD) {
            return Ok(Self { table: None, head: head(matrix(root.host_tensor(HEAD, &shape)?)?) });
        }
        let table = weights.host_tensor(name, &shape)?;
        if tied && !root.has(HEAD) {
            return Ok(Self { table: None, head: head(matrix(table)?) });
        }
        let own = root.host_tensor(HEAD, &shape)?;
        let same = table.dtype == own.dtype && table.bytes == own.bytes;
        let table = (!same).then(|| matrix(table)).transpose()?;
        Ok(Self { table, head: head(matrix(own)?) })
    }

    /// Multiplies logits by `scale`.
    pub(super) fn with_scale(mut self, scale: f32) -> Self {
        self.head.scale = scale;
        self
    }

    /// `[vocabulary, width]`, for [`Device::embed`].
    pub(super) fn table(&self) -> &D::Matrix {
        self.table.as_ref().unwrap_or(&self.head.weight)
    }

    /// The head.
    pub(super) fn head(&self) -> &LmHead<D> {
        &self.head
    }
}
