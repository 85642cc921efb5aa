"""EfficientRAG's labeler as a class of transformers: DeBERTa with two linear heads.

Its tensors are `deberta.*`, `pooler.dense`, `sequence_classifier` (the chunk's tag, from the pooled first position) and
`token_classifier` (keep or drop, at every position). Two tags by default, three on request.
"""

from dataclasses import dataclass

import torch
from transformers.models.deberta_v2 import modeling_deberta_v2 as deberta_v2
from transformers.utils import ModelOutput


@dataclass
class LabelerOutput(ModelOutput):
    sequence_logits: torch.Tensor = None
    token_logits: torch.Tensor = None
    hidden_states: tuple = None


class DebertaForSequenceTokenClassification(deberta_v2.DebertaV2PreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.deberta = deberta_v2.DebertaV2Model(config)
        self.pooler = deberta_v2.ContextPooler(config)
        self.sequence_classifier = torch.nn.Linear(self.pooler.output_dim, config.num_labels)
        self.token_classifier = torch.nn.Linear(config.hidden_size, 2)
        self.post_init()

    def forward(self, input_ids, attention_mask=None, output_hidden_states=False):
        output = self.deberta(input_ids, attention_mask=attention_mask, output_hidden_states=output_hidden_states)
        states = output.last_hidden_state
        return LabelerOutput(
            sequence_logits=self.sequence_classifier(self.pooler(states)),
            token_logits=self.token_classifier(states),
            hidden_states=output.hidden_states,
        )
