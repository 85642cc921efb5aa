//! The documentation of the parameters of `migres`.

use crate::registry::ParameterInfo;

pub(super) const DOCUMENTATION: &[ParameterInfo] = &[
    ParameterInfo {
        name: "retriever",
        values: "name of a service",
        default: None,
        documentation: "Finds passages for each query.",
    },
    ParameterInfo {
        name: "mixture",
        values: "name of a service, or nothing",
        default: Some("null"),
        documentation: "A second retriever, whose passages are added to the first one's.",
    },
    ParameterInfo {
        name: "reranker",
        values: "name of a service",
        default: None,
        documentation: "Scores passages for a query: a cross-encoder whose relevances are raw logits.",
    },
    ParameterInfo {
        name: "sentence_reranker",
        values: "name of a service, or nothing for `reranker`",
        default: Some("null"),
        documentation: "Scores sentences: the same model with shorter pairs, for instance.",
    },
    ParameterInfo {
        name: "generator",
        values: "name of a service",
        default: None,
        documentation: "The language model of all modules.",
    },
    ParameterInfo {
        name: "entailer",
        values: "name of a service, or nothing",
        default: Some("null"),
        documentation: "Checks that a cited passage entails what was drawn from it; without it nothing is checked.",
    },
    ParameterInfo {
        name: "retrieved",
        values: "integer, at least 1",
        default: Some("50"),
        documentation: "Passages retrieved for each query.",
    },
    ParameterInfo {
        name: "mixture_retrieved",
        values: "integer, at least 1",
        default: Some("50"),
        documentation: "Passages that `mixture` adds for each query; the code has 30.",
    },
    ParameterInfo {
        name: "retrieved_in_mixture",
        values: "integer, at least 1",
        default: Some("50"),
        documentation: "Passages of `retriever` for each query if there is a `mixture`; the code has 20.",
    },
    ParameterInfo {
        name: "retry_prefix",
        values: "text",
        default: Some("\"\""),
        documentation: "If not empty, a query with fewer hits than asked for is asked again with this before it; \
            the code has \"Find information about \".",
    },
    ParameterInfo {
        name: "threshold",
        values: "number",
        default: Some("3.0"),
        documentation: "Passages and sentences of a lower relevance are left out: 3 for multi-hop questions, 5 \
            for open-domain ones, 0 for yes or no.",
    },
    ParameterInfo {
        name: "passages",
        values: "integer, at least 1",
        default: Some("5"),
        documentation: "The most passages shown in a round.",
    },
    ParameterInfo {
        name: "rerank_separator",
        values: "text",
        default: Some("\" </s> \""),
        documentation: "Stands between a passage's title and text for `reranker`.",
    },
    ParameterInfo {
        name: "passage_score",
        values: "\"best\" or \"last\"",
        default: Some("\"best\""),
        documentation: "The score of a passage that several queries selected; the code has the last query's.",
    },
    ParameterInfo {
        name: "knowledge",
        values: "\"sentences\", \"whole\", \"summ\" or \"snippet\"",
        default: Some("\"sentences\""),
        documentation: "The form in which passages are shown: relevant sentences, whole, or a summary or copied \
            parts by the generator; in the code sentences are an option.",
    },
    ParameterInfo {
        name: "glue_fragments",
        values: "true or false",
        default: Some("false"),
        documentation: "Whether a sentence that does not begin with a capital letter belongs to the one before \
            it, as in the code.",
    },
    ParameterInfo {
        name: "drop_query_sentences",
        values: "true or false",
        default: Some("false"),
        documentation: "Whether sentences that stand in the query are left out, as in the code.",
    },
    ParameterInfo {
        name: "irrelevant",
        values: "\"begins\" or \"contains\"",
        default: Some("\"begins\""),
        documentation: "With \"summ\" and \"snippet\": the place of the word \"irrelevant\" in a reply about a \
            passage that does not help; ALCE's code looks for it anywhere.",
    },
    ParameterInfo {
        name: "most_compressed",
        values: "integer, at least 1",
        default: Some("10"),
        documentation: "With \"summ\" and \"snippet\": the most passages of a round that are asked about until \
            `passages` of them help.",
    },
    ParameterInfo {
        name: "forward",
        values: "true or false",
        default: Some("true"),
        documentation: "Whether the generator writes what it knows if no passage is left (knowledge prompting).",
    },
    ParameterInfo {
        name: "forward_when",
        values: "\"nothing_left\" or \"nothing_relevant\"",
        default: Some("\"nothing_left\""),
        documentation: "Whether passages that were shown before count as left; in the code they do.",
    },
    ParameterInfo {
        name: "forward_queries",
        values: "\"first\" or \"each\"",
        default: Some("\"first\""),
        documentation: "The queries of the round for which the generator writes.",
    },
    ParameterInfo {
        name: "forward_title",
        values: "\"omitted\" or \"none\"",
        default: Some("\"omitted\""),
        documentation: "The title of such a text: none, or the word None, as in the code.",
    },
    ParameterInfo {
        name: "refused_words",
        values: "list of texts",
        default: Some("[]"),
        documentation: "A text of the generator's own knowledge with one of these is dropped; the code has \
            \"sorry\", \"2022\" and others.",
    },
    ParameterInfo {
        name: "leaf_question",
        values: "\"shown\" or \"all\"",
        default: Some("\"shown\""),
        documentation: "The question of the leaf module: the queries for which the shown passages were found, or \
            all of the round.",
    },
    ParameterInfo {
        name: "citations",
        values: "\"shown\" or \"unfiltered\"",
        default: Some("\"shown\""),
        documentation: "The list that a cited number counts in; the code counts in the one before the memory's \
            filter, so a number may mean another passage.",
    },
    ParameterInfo {
        name: "most_infos",
        values: "integer, at least 1",
        default: Some("20"),
        documentation: "The most statements taken from one reply of the leaf module.",
    },
    ParameterInfo {
        name: "entailed_at",
        values: "probability",
        default: Some("0.5"),
        documentation: "The least probability that counts as entailment.",
    },
    ParameterInfo {
        name: "most_shown",
        values: "integer, 0 for no memory",
        default: Some("2"),
        documentation: "A passage is not shown again after so many times; to be cited counts as one more.",
    },
    ParameterInfo {
        name: "shortest_passage",
        values: "integer, at least 0",
        default: Some("0"),
        documentation: "Passages of fewer words are not shown; the code has 5.",
    },
    ParameterInfo {
        name: "history",
        values: "\"all\" or \"shown\"",
        default: Some("\"all\""),
        documentation: "The queries that are not asked again: all, or those for which passages were shown, as in \
            the code.",
    },
    ParameterInfo {
        name: "iterations",
        values: "integer, at least 0",
        default: Some("5"),
        documentation: "The most rounds of new queries: 5, for open-domain questions 3. With 0 the passages are \
            read at once.",
    },
    ParameterInfo {
        name: "most_queries",
        values: "integer, at least 1",
        default: Some("3"),
        documentation: "New queries of a round.",
    },
    ParameterInfo {
        name: "shortest_query",
        values: "integer, at least 0",
        default: Some("0"),
        documentation: "Queries of so many characters or fewer are left out; the code has 10.",
    },
    ParameterInfo {
        name: "shortest_missing",
        values: "integer, at least 0",
        default: Some("1"),
        documentation: "If the missing information has fewer characters, the explanation takes its place; the \
            code has 10.",
    },
    ParameterInfo {
        name: "skip_main",
        values: "true or false",
        default: Some("false"),
        documentation: "Whether a round, not the first, that found nothing new goes straight to new queries, as \
            in the code.",
    },
    ParameterInfo {
        name: "barren_end",
        values: "\"final\" or \"lose\"",
        default: Some("\"final\""),
        documentation: "With `skip_main`: whether a question whose last round found nothing new is answered, or \
            has no answer, as in the code.",
    },
    ParameterInfo {
        name: "task",
        values: "\"open\" or \"yes_no\"",
        default: Some("\"open\""),
        documentation: "The wording: a short answer, or yes or no (StrategyQA).",
    },
    ParameterInfo {
        name: "kinship",
        values: "true or false",
        default: Some("false"),
        documentation: "Whether the meanings of four words such as maternal grandmother are known from the start, \
            as in the code.",
    },
    ParameterInfo {
        name: "draws",
        values: "integer, at least 1",
        default: Some("1"),
        documentation: "Samples of the main, leaf and final modules, which vote.",
    },
    ParameterInfo {
        name: "least_confidence",
        values: "integer, at least 0",
        default: Some("4"),
        documentation: "With several draws: the least confidence of a vote for an answer, and the least mean.",
    },
    ParameterInfo {
        name: "clusters",
        values: "integer, at least 1",
        default: Some("3"),
        documentation: "With several draws: the clusters of the statements of all leaf replies.",
    },
    ParameterInfo {
        name: "clusters_kept",
        values: "integer, at least 1",
        default: Some("2"),
        documentation: "With several draws: the largest clusters of which the middle statement is kept; a cluster \
            of one only if it is the largest.",
    },
    ParameterInfo {
        name: "parser",
        values: "\"tolerant\" or \"code\"",
        default: Some("\"tolerant\""),
        documentation: "The reading of replies; in the code a Python literal, and if it is none, slices between \
            the four keys and single digits.",
    },
    ParameterInfo {
        name: "json",
        values: "true or false",
        default: Some("false"),
        documentation: "Whether main, leaf and final module ask the service for a JSON object.",
    },
    ParameterInfo {
        name: "sampling",
        values: "\"greedy\", \"server\", \"sample\" or \"code\"",
        default: Some("\"greedy\""),
        documentation: "The choice of tokens; the code leaves it to the server with one draw, and with more has \
            top_p 0.9 and presence and frequency penalties of 1.",
    },
    ParameterInfo {
        name: "temperature",
        values: "number, larger than 0",
        default: Some("1.0"),
        documentation: "With \"sample\".",
    },
    ParameterInfo {
        name: "top_p",
        values: "number, larger than 0, at most 1",
        default: Some("1.0"),
        documentation: "With \"sample\".",
    },
    ParameterInfo {
        name: "presence_penalty",
        values: "number",
        default: Some("0.0"),
        documentation: "With \"sample\".",
    },
    ParameterInfo {
        name: "frequency_penalty",
        values: "number",
        default: Some("0.0"),
        documentation: "With \"sample\".",
    },
    ParameterInfo {
        name: "max_tokens",
        values: "integer, at least 1",
        default: Some("512"),
        documentation: "Most tokens that the generator writes.",
    },
    ParameterInfo {
        name: "context_tokens",
        values: "integer, or nothing for the model's own limit",
        default: Some("null"),
        documentation: "Most tokens of a prompt with passages, which are cut, the last one first.",
    },
    ParameterInfo {
        name: "count_knowledge",
        values: "true or false",
        default: Some("false"),
        documentation: "Whether the tokens of the shown passages are counted, in the note `knowledge_tokens`.",
    },
    ParameterInfo {
        name: "demonstrations",
        values: "\"none\", \"multi_hop\", \"open_domain\" or \"yes_no\"",
        default: Some("\"none\""),
        documentation: "Two examples for each module, or none.",
    },
    ParameterInfo {
        name: "demonstration_texts",
        values: "table of texts: main, final, direct, leaf, query",
        default: Some("{}"),
        documentation: "Other examples for some modules.",
    },
    ParameterInfo {
        name: "prompts",
        values: "table of texts: main, final, direct, leaf, query, forward, compression",
        default: Some("{}"),
        documentation: "Other prompts for some modules, with the same fields.",
    },
    ParameterInfo {
        name: "system",
        values: "text",
        default: Some("\"\""),
        documentation: "The system's message, if not empty.",
    },
];
