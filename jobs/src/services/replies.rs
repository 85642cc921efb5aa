//! Answers for one asker: at its own temperatures, with the texts of requested passages.

use hopeval_corpus::{Corpus, PassageId};
use hopeval_methods::request::PassageId as Asked;
use hopeval_methods::response::TargetScores;
use hopeval_methods::{Answer, FailureKind, PassageText, Request, RequestPayload, Response};

/// The response for the asker of `request`: a score at its own temperatures, without those of other askers.
pub(crate) fn own_response(response: &Response, request: &Request) -> Response {
    Response { facts: response.facts.clone(), ..machine_response(response, request) }
}

/// The same for the machine that asks, without measured facts: they are not even copied.
pub(crate) fn machine_response(response: &Response, request: &Request) -> Response {
    if !response.satisfies(request) {
        let message =
            "an answer was shared with a request for a temperature that its method does not name: this is a bug";
        return Response::failure(FailureKind::Refused, message);
    }
    let result = match (&request.ask, &response.result) {
        (RequestPayload::Score(score), Ok(Answer::Score(found))) => {
            // A sweep has millions of answers, so temperatures of other askers are never copied.
            let sums = found.log_sum_exps.iter().filter(|(temperature, _)| score.temperatures.contains(temperature));
            let (logits, log_sum_exps) = (found.logits.clone(), sums.cloned().collect());
            Ok(Answer::Score(TargetScores { logits, log_sum_exps, ends: found.ends }))
        }
        (_, result) => result.clone(),
    };
    let Response { result: _, work, facts: _, run_only, prompt, passages } = response;
    let (prompt, passages) = (prompt.clone(), passages.clone());
    Response { result, work: *work, facts: None, run_only: *run_only, prompt, passages }
}

/// Fills in the texts of an answer's passages.
pub fn read_texts(corpus: &Corpus, response: &mut Response) {
    let Ok(answer) = &response.result else { return };
    response.passages = answer.passages().into_iter().map(|id| passage_text(corpus, id)).collect();
}

/// A passage as machines read it.
pub(super) fn passage_text(corpus: &Corpus, id: Asked) -> PassageText {
    let passage = PassageId(id.0);
    let sentences = corpus.sentence_ends(passage).to_vec();
    PassageText { sentences, ..PassageText::new(id, corpus.title(passage), corpus.text(passage)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopeval_methods::request::ScorePayload;
    use hopeval_methods::{AnswerWork, CallFacts, Prompt};

    /// A score at two temperatures, of which its asker wants one.
    #[test]
    fn an_asker_gets_its_temperatures_and_a_machine_no_facts() {
        let asked = ScorePayload { prompt: Prompt::text("p"), target: Prompt::text("t"), temperatures: vec![2.0] };
        let request = Request::new(&"scorer".into(), asked);
        let sums = |temperature: f64| (temperature, vec![0.5_f32]);
        let log_sum_exps = vec![sums(1.0), sums(2.0)];
        let answer = Answer::Score(TargetScores { logits: vec![3.0], log_sum_exps, ends: false });
        let facts = Some(Box::new(CallFacts { attempts: 2, ..CallFacts::default() }));
        let shared = Response { facts: facts.clone(), ..Response::answer(answer, AnswerWork::default()) };
        let own = own_response(&shared, &request);
        let Ok(Answer::Score(scores)) = &own.result else { panic!("{own:?}") };
        assert_eq!((&scores.log_sum_exps, &own.facts), (&vec![sums(2.0)], &facts));
        assert_eq!(machine_response(&shared, &request), own.without_facts());
    }
}
