"""Small models with random weights, in the forms that the authors' programs open: nothing is downloaded.

Their tokenizers are trained on the passages. Weights are wide enough to matter: another token anywhere gives other
scores.
"""

import json

import numpy
import sentencepiece
import tokenizers
import torch
import transformers

PIECES = 8_000
WORD_PIECES = 8_000
BYTE_PAIRS = 6_000
# The program looks for these two ids of GPT-2 to find where the question begins.
QUESTION, COLON = 18_233, 25


def randomise(model, seed):
    """Projections that keep the scale of their input; norms and biases that are not trivial."""
    random = numpy.random.default_rng(seed)
    for name, tensor in sorted(model.named_parameters()):
        shape = tuple(tensor.shape)
        draw = random.standard_normal(shape).astype(numpy.float32)
        if len(shape) == 1:
            draw *= 0.2
            if "norm" in name.lower() or "ln_" in name:
                draw += name.endswith("weight")
        elif "relative_attention_bias" in name:
            draw *= 2
        elif any(part in name for part in ("embed", "wte", "wpe", "shared")):
            draw *= 0.45
        else:
            # GPT-2 stores [into, out]; all others [out, into].
            draw *= 2.0 / numpy.sqrt(shape[0] if ".c_" in name else shape[1])
            if name.endswith("Attention.q.weight"):
                draw /= numpy.sqrt(model.config.d_kv)
        with torch.no_grad():
            tensor.copy_(torch.from_numpy(draw))
    return model.eval()


def sentence_pieces(texts, prefix, **special):
    """A SentencePiece model of unigrams."""
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_prefix=str(prefix), vocab_size=PIECES, model_type="unigram",
        character_coverage=0.9995, num_threads=1, minloglevel=2, **special,
    )  # fmt: skip


def t5(folder, texts, seed=1):
    """A T5 of two layers whose tokenizer is a `spiece.model`, as Google's checkpoints have it."""
    folder.mkdir(parents=True)
    sentence_pieces(texts, folder / "spiece", pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    vocabulary = PIECES + 100
    config = transformers.T5Config(
        vocab_size=vocabulary, d_model=64, d_kv=32, d_ff=128, num_layers=2, num_decoder_layers=2, num_heads=2,
        decoder_start_token_id=0, feed_forward_proj="gated-gelu", tie_word_embeddings=False,
    )  # fmt: skip
    model = randomise(transformers.T5ForConditionalGeneration(config), seed)
    model.save_pretrained(folder)
    settings = {
        "tokenizer_class": "T5Tokenizer",
        "extra_ids": 100,
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "pad_token": "<pad>",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")


def gpt2(folder, texts, seed=2):
    """A GPT-2 of two layers with the byte pairs of the passages, two of them at the ids that the program knows."""
    folder.mkdir(parents=True)
    trained = tokenizers.ByteLevelBPETokenizer()
    # Often enough to be one token.
    trained.train_from_iterator(
        [*texts, *[" Question: "] * 5_000], vocab_size=BYTE_PAIRS, special_tokens=["<|endoftext|>"], show_progress=False
    )
    trained.save_model(str(folder))
    vocabulary = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    at_25 = next(token for token, id in vocabulary.items() if id == COLON)
    vocabulary[at_25], vocabulary[":"] = vocabulary[":"], COLON
    # Every id below the last one has a token, as in GPT-2's own vocabulary.
    freed, vocabulary["ĠQuestion"] = vocabulary["ĠQuestion"], QUESTION
    taken = set(vocabulary.values())
    for id in range(QUESTION):
        if id not in taken:
            vocabulary[f"unused{id}"] = id
    assert freed not in taken
    (folder / "vocab.json").write_text(json.dumps(vocabulary, ensure_ascii=False), encoding="utf-8")
    tokenizer = transformers.GPT2TokenizerFast(str(folder / "vocab.json"), str(folder / "merges.txt"))
    tokenizer.save_pretrained(folder)
    config = transformers.GPT2Config(
        vocab_size=QUESTION + 1, n_embd=64, n_layer=2, n_head=4, n_positions=1024, bos_token_id=0, eos_token_id=0
    )
    randomise(transformers.GPT2LMHeadModel(config), seed).save_pretrained(folder)


def made(folder, how, texts):
    """The folder, made once."""
    if not (folder / "config.json").is_file():
        how(folder, texts)
    return folder


def word_pieces(folder, texts, kind):
    """BERT's vocabulary file, lower case, with its unused tokens, for a tokenizer of transformers."""
    trained = tokenizers.BertWordPieceTokenizer(lowercase=True)
    special = ["[PAD]", *[f"[unused{n}]" for n in range(10)], "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    # The program wants "yes" and "no" to be tokens.
    often = ["yes no"] * 5_000
    trained.train_from_iterator([*texts, *often], vocab_size=WORD_PIECES, special_tokens=special, show_progress=False)
    trained.save_model(str(folder))
    settings = {"tokenizer_class": kind, "do_lower_case": True}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")


def electra(folder, texts, seed=3):
    """An encoder of two layers, as MDR's reader opens it."""
    folder.mkdir(parents=True)
    word_pieces(folder, texts, "ElectraTokenizer")
    config = transformers.ElectraConfig(
        vocab_size=WORD_PIECES, embedding_size=32, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=128, max_position_embeddings=512, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    randomise(transformers.ElectraModel(config), seed).save_pretrained(folder)


def bert(folder, texts, seed=5):
    """An encoder of two layers that stands for Contriever."""
    folder.mkdir(parents=True)
    word_pieces(folder, texts, "BertTokenizer")
    config = transformers.BertConfig(
        vocab_size=WORD_PIECES, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
        max_position_embeddings=512,
    )  # fmt: skip
    model = randomise(transformers.BertModel(config, add_pooling_layer=False), seed)
    # A text's vector is near that of its words, so that texts with like words are found.
    for name, tensor in model.named_parameters():
        if "position" in name or "token_type" in name or "output.dense.weight" in name or "LayerNorm.bias" in name:
            tensor.mul_(0.1)
    model.save_pretrained(folder)


def deberta(folder, texts, kind, labels, seed):
    """A DeBERTa v3 of one layer with the heads of `kind`, whose tokenizer is an `spm.model`."""
    folder.mkdir(parents=True)
    special = {"pad_id": 0, "bos_id": 1, "eos_id": 2, "unk_id": 3}
    named = {"pad_piece": "[PAD]", "bos_piece": "[CLS]", "eos_piece": "[SEP]", "unk_piece": "[UNK]"}
    # Of equal texts equal pieces: all folders have one tokenizer.
    sentence_pieces(texts, folder / "spm", **special, **named)
    # Small, because the program pads every chunk to 384 tokens.
    config = transformers.DebertaV2Config(
        vocab_size=PIECES + 100, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64,
        max_position_embeddings=512, type_vocab_size=0, relative_attention=True, position_buckets=256,
        norm_rel_ebd="layer_norm", share_att_key=True, pos_att_type=["p2c", "c2p"], layer_norm_eps=1e-7,
        max_relative_positions=-1, position_biased_input=False, pooler_hidden_size=32, num_labels=2,
    )  # fmt: skip
    model = randomise(kind(config, **labels), seed)
    if hasattr(model, "sequence_classifier"):
        # About one of eight chunks continues, so that questions end after one to four rounds.
        drawn = torch.randint(4, PIECES, (64, 128), generator=torch.Generator().manual_seed(seed))
        logits = model(input_ids=drawn).sequence_logits
        model.sequence_classifier.bias.sub_(logits.mean(dim=0))
        model.sequence_classifier.bias[0] -= 1.15 * (logits[:, 0] - logits[:, 1]).std()
    model.save_pretrained(folder)
    settings = {"tokenizer_class": "DebertaV2Tokenizer", "do_lower_case": False, "vocab_type": "spm"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
