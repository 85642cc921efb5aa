//! The documentation of each parameter, for `--show-settings` and the manual.

use crate::registry::ParameterInfo;

/// In the order of the method's steps.
pub(super) const PARAMETERS: &[ParameterInfo] = &[
    ParameterInfo {
        name: "retriever",
        values: "name of a retriever",
        default: None,
        documentation: "Finds the pool: TF-IDF in the paper.",
    },
    ParameterInfo {
        name: "scorer",
        values: "name of a service that scores",
        default: None,
        documentation: "The language model: T5-XL, adapted to language modelling, in the paper.",
    },
    ParameterInfo {
        name: "pool",
        values: "integer, at least 1",
        default: Some("100"),
        documentation: "Passages of the retriever that are scored, the best ones (F); whatever ranks below is cut off.",
    },
    ParameterInfo {
        name: "hops",
        values: "integer, at least 1",
        default: Some("2"),
        documentation: "Passages on the longest path (H); 1 scores the pool and follows no link.",
    },
    ParameterInfo {
        name: "first_hops",
        values: "integer, at least 1",
        default: Some("5"),
        documentation: "Passages of the pool that are expanded, the best ones (K1).",
    },
    ParameterInfo {
        name: "next_hops",
        values: "integer, a list of integers, or nothing for as many as first_hops",
        default: Some("null"),
        documentation: "Longer paths that are expanded at each hop, the best ones (K2, K3, …; the last goes on).",
    },
    ParameterInfo {
        name: "links_per_passage",
        values: "integer, or a list of integers",
        default: Some("3"),
        documentation: "Links of an expanded path's last passage that extend it, the best ones (L); a list is by hop.",
    },
    ParameterInfo {
        name: "links",
        values: "name of a service",
        default: Some("\"corpus\""),
        documentation: "Knows the links of passages.",
    },
    ParameterInfo {
        name: "link_direction",
        values: "\"outgoing\" or \"incoming\"",
        default: Some("\"outgoing\""),
        documentation: "Whether paths follow links or go against them.",
    },
    ParameterInfo {
        name: "link_ranker",
        values: "name of a retriever, or nothing for the retriever",
        default: Some("null"),
        documentation: "Ranks a passage's links with statistics of just these; the code's is of kind link_tfidf.",
    },
    ParameterInfo {
        name: "link_ties",
        values: "\"smaller_id\" or \"later\"",
        default: Some("\"smaller_id\""),
        documentation: "Which of equally similar links comes first; the code has the one that stands later in the \
                        passage.",
    },
    ParameterInfo {
        name: "rerank",
        values: "\"path\" or \"passage\"",
        default: Some("\"path\""),
        documentation: "Whether the model reads a whole path, or each passage alone: single-hop re-ranking (section \
                        4.1).",
    },
    ParameterInfo {
        name: "instructions",
        values: "\"hopeval:one\", \"hopeval:five\", a text, or a list of texts and of tables of text and position",
        default: Some(super::instructions::DEFAULT),
        documentation: "What the model is told; several are an ensemble; a text with {passages} is a whole prompt.",
    },
    ParameterInfo {
        name: "position",
        values: "\"after\", \"before\" or \"none\"",
        default: Some("\"after\""),
        documentation: "Where instructions stand; with none, the documents are the prompt.",
    },
    ParameterInfo {
        name: "cue",
        values: "text",
        default: Some("\"Question:\""),
        documentation: "Stands last, right before what is scored.",
    },
    ParameterInfo {
        name: "label",
        values: "text",
        default: Some("\"Document: \""),
        documentation: "Stands before each document.",
    },
    ParameterInfo {
        name: "separator",
        values: "text",
        default: Some("\" \""),
        documentation: "Stands between documents, instruction and cue.",
    },
    ParameterInfo {
        name: "titles",
        values: "\"none\", \"first_hop\" or \"all\"",
        default: Some("\"none\""),
        documentation: "Which passages are shown with their titles; the code can show those of the first hop.",
    },
    ParameterInfo {
        name: "path_order",
        values: "\"link\" or \"inverted\"",
        default: Some("\"link\""),
        documentation: "Order of a path's passages in the prompt (appendix D.2).",
    },
    ParameterInfo {
        name: "demonstrations",
        values: "list of tables of texts and question, or a list of such lists",
        default: Some("[]"),
        documentation: "Solved examples shown before the path; several lists are an ensemble (section 2.3).",
    },
    ParameterInfo {
        name: "demonstration_tokens",
        values: "integer, at least 1, or nothing for no limit",
        default: Some("null"),
        documentation: "Longest text of a demonstration; the code can cut at 100.",
    },
    ParameterInfo {
        name: "passage_tokens",
        values: "integer, at least 1",
        default: Some("230"),
        documentation: "Longest passage, in tokens, its title included.",
    },
    ParameterInfo {
        name: "prompt_tokens",
        values: "integer, at least 1, or nothing for 600, with demonstrations 1024",
        default: Some("null"),
        documentation: "Longest prompt, in tokens.",
    },
    ParameterInfo {
        name: "overflow",
        values: "\"passages\", \"right\" or \"refuse\"",
        default: Some("\"passages\""),
        documentation: "What gives way in too long a prompt; the code cuts from the right, where the instruction \
                        stands.",
    },
    ParameterInfo {
        name: "question_mark",
        values: "true or false",
        default: Some("false"),
        documentation: "Whether a scored question without a question mark gets one, as in the code.",
    },
    ParameterInfo {
        name: "question_prefix",
        values: "text",
        default: Some("\"\""),
        documentation: "Stands before the question in what is scored: a space for decoders such as GPT-2.",
    },
    ParameterInfo {
        name: "temperature",
        values: "number from 0.001 to 1000",
        default: Some("1.0"),
        documentation: "Divides the logits; 1.4 after the paper's search on 128 questions.",
    },
    ParameterInfo {
        name: "normalise",
        values: "\"mean\" or \"sum\"",
        default: Some("\"mean\""),
        documentation: "How the tokens of a question make a score.",
    },
    ParameterInfo {
        name: "score_end",
        values: "true or false",
        default: Some("true"),
        documentation: "Whether the end of the sequence, where the model scores it, counts as a token of the question.",
    },
    ParameterInfo {
        name: "ensemble",
        values: "\"max\", \"mean\", \"token_max\", \"token_mean\" or \"token_median\"",
        default: Some("\"max\""),
        documentation: "How the scores with each instruction and set of demonstrations are combined.",
    },
    ParameterInfo {
        name: "next_ensemble",
        values: "as ensemble, or nothing for the same",
        default: Some("null"),
        documentation: "The same from the second hop on, where the code always takes the mean.",
    },
    ParameterInfo {
        name: "document_score",
        values: "\"max\", \"mean\", \"min\" or \"longest\"",
        default: Some("\"max\""),
        documentation: "How the scores of the paths that a document is on make its own (appendix B).",
    },
    ParameterInfo {
        name: "ties",
        values: "\"smaller_id\" or \"pool\"",
        default: Some("\"smaller_id\""),
        documentation: "Which of equally good documents and paths comes first; the code has the pool's order, then the \
                        search's.",
    },
    ParameterInfo {
        name: "reader",
        values: "name of a service that reads, or nothing for no answer",
        default: Some("null"),
        documentation: "Extracts answers: ELECTRA-large with MDR's weights in the paper.",
    },
    ParameterInfo {
        name: "read_paths",
        values: "integer, at least 1",
        default: Some("100"),
        documentation: "Paths that are read, the best ones of all lengths.",
    },
    ParameterInfo {
        name: "read_titles",
        values: "true or false",
        default: Some("true"),
        documentation: "Whether the reader sees titles.",
    },
    ParameterInfo {
        name: "read_form",
        values: "\"plain\" or \"mdr\"",
        default: Some("\"plain\""),
        documentation: "Form of what is read: with single spaces, or with the marks that MDR's weights know.",
    },
    ParameterInfo {
        name: "yes_no",
        values: "true or false",
        default: Some("true"),
        documentation: "Whether what is read begins with yes and no, so that they can be answers.",
    },
    ParameterInfo {
        name: "max_answer_tokens",
        values: "integer, at least 1",
        default: Some("30"),
        documentation: "Longest answer, in tokens.",
    },
    ParameterInfo {
        name: "span_text",
        values: "\"tokens\", \"words\" or \"final_text\"",
        default: Some("\"tokens\""),
        documentation: "Whether an answer is its tokens' characters, their whole words, or what MDR's script makes of \
                        them.",
    },
    ParameterInfo {
        name: "lambda",
        values: "number from 0 to 1",
        default: Some("0.9"),
        documentation: "Weight of the path's score in an answer's; the span's has the rest (appendix C.1).",
    },
    ParameterInfo {
        name: "lambda_on",
        values: "\"path\" or \"rank\"",
        default: Some("\"path\""),
        documentation: "What lambda weighs: the path's score, or as in MDR the reader's own rank of what it read.",
    },
];
