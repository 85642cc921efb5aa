"""The fixtures' models: configurations, heads, how they are stored, and what the README beside them says."""

import dataclasses
from collections.abc import Callable

import torch
import transformers as t

from efficientrag import DebertaForSequenceTokenClassification


@dataclasses.dataclass
class Spec:
    """One fixture."""

    about: str
    kind: str
    """decoder, encoder_decoder or encoder."""
    model: type
    config: Callable
    vocabulary: int
    heads: tuple = ()
    """Of encoders: embed, token, sequence, span."""
    lengths: tuple = (1, 2, 7, 26)
    lowest: int = 3
    """Ids are drawn from here on, above the special ones."""
    types: bool = False
    """Whether some sequences have token types."""
    tokenizer: str | None = None
    transformers_4: Callable | None = None
    """Makes of config.json what transformers 4 would have written."""
    untied: bool = False
    dtype: torch.dtype = torch.float32
    shard: str | None = None
    rename: Callable | None = None
    """Makes the stored tensors those of an older file."""
    options: dict = dataclasses.field(default_factory=dict)
    """Of the model's constructor."""
    seed: int = 1

    def token_logits(self, output):
        return output.token_logits if "token_logits" in output else output.logits

    def sequence_logits(self, output):
        return output.sequence_logits if "sequence_logits" in output else output.logits


def older(config, drop=(), **more):
    """What all of transformers 4's files have in common."""
    config = {key: value for key, value in config.items() if key not in drop}
    if "dtype" in config:
        config["torch_dtype"] = config.pop("dtype")
    return config | {"transformers_version": "4.44.2"} | more


def older_rope(**scaling):
    """rope_theta and rope_scaling instead of rope_parameters."""

    def convert(config):
        theta = config["rope_parameters"]["rope_theta"]
        return older(config, drop=("rope_parameters", "layer_types"), rope_theta=theta, rope_scaling=scaling or None)

    return convert


def bare_gpt2(state):
    """The first GPT-2 files: no prefix, the head left out, and the causal masks stored."""
    state = {name.removeprefix("transformer."): tensor for name, tensor in state.items() if name != "lm_head.weight"}
    for layer in range(2):
        state[f"h.{layer}.attn.bias"] = torch.ones(1, 1, 96, 96, dtype=torch.uint8).tril()
    return state


def with_position_ids(state):
    """BERT files before transformers 4.31 hold the positions, too."""
    return state | {"embeddings.position_ids": torch.arange(64)[None]}


def gpt2(**more):
    sizes = {"n_embd": 24, "n_layer": 2, "n_head": 3, "vocab_size": 101, "n_positions": 96}
    roles = {"bos_token_id": 0, "eos_token_id": 0}
    return lambda: t.GPT2Config(**(sizes | roles | more))


def opt(**more):
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "ffn_dim": 44, "vocab_size": 101}
    sizes |= {"max_position_embeddings": 96, "word_embed_proj_dim": 24}
    return lambda: t.OPTConfig(**(sizes | more))


def llama_class(config, **more):
    sizes = {"hidden_size": 24, "intermediate_size": 44, "num_hidden_layers": 2, "vocab_size": 101}
    sizes |= {"num_attention_heads": 6, "num_key_value_heads": 2, "max_position_embeddings": 128}
    sizes |= {} if config is t.Qwen2Config else {"head_dim": 8}
    sizes |= {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}
    sizes |= {"bos_token_id": 1, "eos_token_id": 2}
    return lambda: config(**(sizes | more))


def t5(**more):
    sizes = {"d_model": 24, "d_kv": 8, "d_ff": 44, "num_layers": 3, "num_decoder_layers": 2, "num_heads": 4}
    sizes |= {"vocab_size": 163, "relative_attention_num_buckets": 8, "relative_attention_max_distance": 18}
    sizes |= {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "decoder_start_token_id": 0}
    return lambda: t.T5Config(**(sizes | more))


def older_t5(config):
    """Tying and scaling were one setting, and false for v1.1 and Flan."""
    return older(config, drop=("scale_decoder_outputs",), tie_word_embeddings=False)


def oldest_t5(config):
    """T5 v1.0 says nothing of tying, activation or distance."""
    names = ("scale_decoder_outputs", "tie_word_embeddings", "feed_forward_proj", "relative_attention_max_distance")
    return older(config, drop=names + ("is_gated_act", "dense_act_fn"))


def bert_class(config, **more):
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 44}
    sizes |= {"vocab_size": 163, "max_position_embeddings": 64}
    return lambda: config(**(sizes | more))


def deberta(**more):
    v3 = {"type_vocab_size": 0, "relative_attention": True, "position_buckets": 8, "norm_rel_ebd": "layer_norm"}
    v3 |= {"share_att_key": True, "pos_att_type": ["p2c", "c2p"], "layer_norm_eps": 1e-7, "position_biased_input": False}
    return bert_class(t.DebertaV2Config, **(v3 | {"max_relative_positions": -1, "pooler_hidden_size": 24} | more))


def deberta_v2(**more):
    v2 = {"position_buckets": -1, "norm_rel_ebd": "none", "share_att_key": False, "type_vocab_size": 2}
    return deberta(**(v2 | {"position_biased_input": True, "layer_norm_eps": 1e-6} | more))


LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16}
YARN = {"factor": 4.0, "original_max_position_embeddings": 32}
NAMES = {"id2label": {0: "no", 1: "maybe", 2: "yes"}, "label2id": {"no": 0, "maybe": 1, "yes": 2}}
LONG = (1, 7, 47)

SPECS = {
    "gpt2": Spec(
        "GPT-2, head tied", "decoder", t.GPT2LMHeadModel, gpt2(vocab_size=320, n_positions=160), 320,
        lowest=1, tokenizer="gpt2", transformers_4=older,
    ),
    "t5-v1.0": Spec(
        "T5 v1.0: relu, head tied and its input scaled", "encoder_decoder", t.T5ForConditionalGeneration,
        t5(feed_forward_proj="relu", tie_word_embeddings=True, relative_attention_num_buckets=32,
           relative_attention_max_distance=128), 163,
        transformers_4=oldest_t5,
    ),
    "t5-v1.1": Spec(
        "T5 v1.1: gated gelu, a head of its own", "encoder_decoder", t.T5ForConditionalGeneration, t5(), 163,
        untied=True, tokenizer="t5", transformers_4=older_t5,
    ),
    "llama": Spec(
        "Llama: grouped queries, a head of its own, heads wider than the hidden state together", "decoder",
        t.LlamaForCausalLM, llama_class(t.LlamaConfig), 101, transformers_4=older_rope(),
    ),
    "bert": Spec(
        "BERT without a head: embeddings. The file holds position_ids and a pooler that nothing needs", "encoder",
        t.BertModel, bert_class(t.BertConfig), 163, heads=("embed",), lowest=5, types=True, tokenizer="bert",
        rename=with_position_ids, transformers_4=older,
    ),
    "bert-token": Spec(
        "BERT, token classification", "encoder", t.BertForTokenClassification,
        bert_class(t.BertConfig, num_labels=2), 163, heads=("token",), lowest=5, types=True,
    ),
    "bert-sequence": Spec(
        "BERT, sequence classification with 3 named labels", "encoder", t.BertForSequenceClassification,
        bert_class(t.BertConfig, **NAMES), 163, heads=("sequence",), lowest=5, types=True, tokenizer="bert",
    ),
    "deberta-v3-token": Spec(
        "DeBERTa v3 (logarithmic buckets, shared keys), token classification: EfficientRAG's filter", "encoder",
        t.DebertaV2ForTokenClassification, deberta(num_labels=2), 163, heads=("token",), lowest=5, lengths=(1, 7, 26, 60),
        tokenizer="deberta", transformers_4=older,
    ),
    "deberta-v3-sequence": Spec(
        "DeBERTa v3, sequence classification with 3 named labels", "encoder", t.DebertaV2ForSequenceClassification,
        deberta(**NAMES), 163, heads=("sequence",), lowest=5,
        # As microsoft's configurations write the kinds of attention.
        transformers_4=lambda config: older(config, pos_att_type="p2c|c2p"),
    ),
    "efficientrag-labeler": Spec(
        "EfficientRAG's labeler: DeBERTa v3, a tag for the sequence (2 tags) and a label for each token", "encoder",
        DebertaForSequenceTokenClassification, deberta(num_labels=2), 163, heads=("token", "sequence"), lowest=5,
        tokenizer="deberta",
    ),
    "efficientrag-labeler-3": Spec(
        "EfficientRAG's labeler with 3 tags", "encoder", DebertaForSequenceTokenClassification,
        deberta(num_labels=3, pooler_hidden_act="tanh"), 163, heads=("token", "sequence"), lowest=5,
    ),
    "gpt2-bare": Spec(
        "GPT-2 with scale_attn_by_inverse_layer_idx and n_inner; names without prefix and masks in the file", "decoder",
        t.GPT2LMHeadModel, gpt2(scale_attn_by_inverse_layer_idx=True, n_inner=40), 101, lowest=1, rename=bare_gpt2,
    ),
    "opt": Spec(
        "OPT, norms before", "decoder", t.OPTForCausalLM, opt(), 101, transformers_4=older,
    ),
    "opt-350m-like": Spec(
        "OPT as 350m is: norms after, embeddings narrower than the hidden state", "decoder", t.OPTForCausalLM,
        opt(do_layer_norm_before=False, word_embed_proj_dim=16), 101,
    ),
    "opt-plain": Spec(
        "OPT without biases, weights of norms, or a last norm", "decoder", t.OPTForCausalLM,
        opt(num_hidden_layers=1, enable_bias=False, layer_norm_elementwise_affine=False, _remove_final_layer_norm=True),
        101,
    ),
    "llama-llama3": Spec(
        "Llama with the rotations of Llama 3.1, head tied", "decoder", t.LlamaForCausalLM,
        llama_class(t.LlamaConfig, tie_word_embeddings=True,
                    rope_parameters={"rope_type": "llama3", "rope_theta": 500000.0} | LLAMA3), 101,
        lengths=LONG, transformers_4=older_rope(rope_type="llama3", **LLAMA3),
    ),
    "llama-yarn": Spec(
        "Llama with YaRN", "decoder", t.LlamaForCausalLM,
        llama_class(t.LlamaConfig, rope_parameters={"rope_type": "yarn", "rope_theta": 10000.0} | YARN), 101,
        lengths=LONG, transformers_4=older_rope(type="yarn", **YARN),
    ),
    "llama-linear": Spec(
        "Llama with positions divided by 2, biases in attention and feed-forward, as many key as query heads", "decoder",
        t.LlamaForCausalLM,
        llama_class(t.LlamaConfig, num_attention_heads=3, num_key_value_heads=3, attention_bias=True, mlp_bias=True,
                    rope_parameters={"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0}), 101,
        lengths=LONG, transformers_4=older_rope(type="linear", factor=2.0),
        # Of seed 1 the logits in float32 are 1.2e-4 from those in float64.
        seed=2,
    ),
    "mistral": Spec(
        "Mistral with a window of 8 tokens, in several files", "decoder", t.MistralForCausalLM,
        llama_class(t.MistralConfig, sliding_window=8, num_hidden_layers=3), 101,
        shard="30kB", transformers_4=older_rope(),
    ),
    "qwen2": Spec(
        "Qwen2: biases for queries, keys and values, head tied; a window that is not used", "decoder", t.Qwen2ForCausalLM,
        llama_class(t.Qwen2Config, num_attention_heads=3, num_key_value_heads=1, tie_word_embeddings=True,
                    rope_parameters={"rope_type": "default", "rope_theta": 1000000.0}), 101,
        transformers_4=lambda config: older_rope()(config) | {"sliding_window": 8, "use_sliding_window": False},
    ),
    "qwen3": Spec(
        "Qwen3: queries and keys normalised, heads of 10 (the hidden state is 24)", "decoder", t.Qwen3ForCausalLM,
        llama_class(t.Qwen3Config, num_attention_heads=4, head_dim=10), 101, transformers_4=older_rope(),
    ),
    "qwen3-windows": Spec(
        "Qwen3 with biases, and a window of 8 tokens in its second layer only", "decoder", t.Qwen3ForCausalLM,
        llama_class(t.Qwen3Config, attention_bias=True, use_sliding_window=True, sliding_window=8, max_window_layers=1),
        101, transformers_4=older_rope(),
    ),
    "t5-flan-f16": Spec(
        "Flan-T5's architecture stored as float16", "encoder_decoder", t.T5ForConditionalGeneration,
        t5(num_layers=2, num_decoder_layers=1), 163, untied=True, dtype=torch.float16, transformers_4=older_t5,
    ),
    "t5-flan-bf16": Spec(
        "Flan-T5's architecture stored as bfloat16", "encoder_decoder", t.T5ForConditionalGeneration,
        t5(num_layers=2, num_decoder_layers=1), 163, untied=True, dtype=torch.bfloat16, transformers_4=older_t5,
    ),
    "roberta-rerank": Spec(
        "RoBERTa, sequence classification with one label: a cross-encoder's score", "encoder",
        t.RobertaForSequenceClassification,
        bert_class(t.RobertaConfig, vocab_size=300, num_labels=1, max_position_embeddings=130, type_vocab_size=1), 300,
        heads=("sequence",), lowest=5, tokenizer="roberta", transformers_4=older,
    ),
    "roberta-token": Spec(
        "RoBERTa, token classification", "encoder", t.RobertaForTokenClassification,
        bert_class(t.RobertaConfig, max_position_embeddings=66, type_vocab_size=1, num_labels=3), 163,
        heads=("token",), lowest=5,
    ),
    "xlm-roberta": Spec(
        "XLM-RoBERTa without a head or a pooler: embeddings", "encoder",
        t.XLMRobertaModel, bert_class(t.XLMRobertaConfig, max_position_embeddings=66, type_vocab_size=1), 163,
        heads=("embed",), lowest=5, options={"add_pooling_layer": False},
    ),
    "electra-span": Spec(
        "ELECTRA, question answering; embeddings narrower than the hidden state", "encoder",
        t.ElectraForQuestionAnswering, bert_class(t.ElectraConfig, embedding_size=16, max_position_embeddings=128), 163,
        heads=("span",), lowest=5, types=True, tokenizer="bert", transformers_4=older,
    ),
    "electra-sequence": Spec(
        "ELECTRA, sequence classification; embeddings as wide as the hidden state", "encoder",
        t.ElectraForSequenceClassification, bert_class(t.ElectraConfig, embedding_size=24, num_labels=2), 163,
        heads=("sequence",), lowest=5, types=True,
    ),
    "deberta-v2-plain": Spec(
        "DeBERTa v2 with plain relative positions, own position keys, absolute positions and types", "encoder",
        t.DebertaV2ForTokenClassification, deberta_v2(num_labels=2), 163, heads=("token",), lowest=5, types=True,
        lengths=(1, 7, 26, 60),
    ),
    "deberta-v2-c2p": Spec(
        "DeBERTa v2, content to position only, distances cut at 12", "encoder", t.DebertaV2ForTokenClassification,
        deberta_v2(num_labels=2, pos_att_type=["c2p"], max_relative_positions=12), 163, heads=("token",), lowest=5,
    ),
    "deberta-v2-p2c": Spec(
        "DeBERTa v2, position to content only; embeddings narrower than the hidden state", "encoder",
        t.DebertaV2ForTokenClassification,
        deberta_v2(num_labels=2, pos_att_type=["p2c"], embedding_size=16, num_hidden_layers=1), 163, heads=("token",),
        lowest=5, types=True,
    ),
    "deberta-v2-absolute": Spec(
        "DeBERTa v2 without relative attention, whose named kinds count in the scale all the same", "encoder",
        t.DebertaV2ForTokenClassification, deberta_v2(num_labels=2, relative_attention=False, num_hidden_layers=1), 163,
        heads=("token",), lowest=5, types=True,
    ),
    "deberta-v3-256": Spec(
        "DeBERTa v3 with its 256 buckets: distances up to 128 each their own, beyond them logarithmic", "encoder",
        t.DebertaV2ForTokenClassification,
        deberta(num_labels=2, position_buckets=256, max_position_embeddings=512, num_hidden_layers=1, vocab_size=60), 60,
        heads=("token",), lowest=5, lengths=(1, 7, 200),
    ),
}  # fmt: skip


def readme(specs):
    rows = "\n".join(f"| `{name}` | {spec.about} |" for name, spec in specs.items())
    return README.replace("ROWS", rows)


README = """# Tiny models and what transformers computes with them

Written by `ops/lm/fixtures.py`; change that script, not these files. Weights are random, all outputs float32.

| fixture | what |
|---|---|
ROWS

## Files of a fixture

* `config.json`, `model.safetensors` (or several with `model.safetensors.index.json`): as transformers 5 saves them.
* `config.transformers4.json` (some): the same model's configuration as transformers 4 wrote it; the same outputs.
* `tokenizer.json`, `tokenizer_config.json` (some).
* `expected.json`: inputs, and outputs that are ids, labels or few numbers.
* `expected.safetensors`: outputs that are tensors, `[rows, ...]` without a batch dimension.

## expected.json

* `about`, `kind` (`decoder`, `encoder_decoder`, `encoder`), `heads` (of encoders: `embed`, `token`, `sequence`, `span`),
  `seed`, `versions`.
* `sequences`: one for each input, number `i` in the tensors' names.
  * all: `ids`, used as they are, no special tokens.
  * encoders: `token_type_ids` (absent: none were given); `token_labels` (arg max of each position); `sequence_logits`, and
    `label` (their arg max) where there are several; `span`, `[first, last]` token positions of the best
    `start_logits[first] + end_logits[last]` from the first token of type 1 to the last but one of the sequence,
    `first <= last`, at most `longest_answer` tokens.
  * encoder-decoders: `decoder_ids`, the decoder's input, starting with the start token 0.
* `scores` (decoders, encoder-decoders): `prompt_ids`, `target_ids` (of encoder-decoders ending in `</s>`, 1), `logprobs`:
  for each temperature one number for each target token, log-softmax of logits / temperature.
* `generations`: `prompt_ids`, `ids`: 64 tokens, greedy, never stopping at an end of sequence; `logprobs` of them;
  `margin`, the least distance between the best two logits in any step (always above 1e-3).
* `texts` (where there is a tokenizer): `text`, perhaps `text_pair`; `ids` and `token_type_ids` with the tokenizer's special
  tokens; what the heads decide (types are given to the model only where it has them), tensors `texts.NAME.i`. Of a
  span model the pair is question and context, `offsets` are the answer's characters `[first, end)` of the context
  (counted in code points), `answer` their text.
* `text_scores` (with a tokenizer): `prompt`, `target`, the ids of both, `logprobs` as above.

## expected.safetensors

| tensor | of | shape |
|---|---|---|
| `logits.i` | decoders; encoder-decoders for `decoder_ids` | `[tokens, vocabulary]` |
| `hidden.i` | encoders, encoder-decoders' encoders: last hidden states, normalised | `[tokens, hidden]` |
| `token_logits.i` | token heads | `[tokens, labels]` |
| `sequence_logits.i` | sequence heads | `[labels]` |
| `start_logits.i`, `end_logits.i` | span heads | `[tokens]` |
| `embedding.mean.i`, `embedding.cls.i`, and with `.normalized` before the number | embeddings | `[hidden]` |
"""
