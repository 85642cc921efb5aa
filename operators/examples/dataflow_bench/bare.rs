//! The floor: a bare timely loop sending the same records over the same two exchanges, and nothing else.

use super::{Load, mix};
use hopeval_operators::admit::Credits;
use hopeval_operators::drive::LoopTime;
use std::collections::HashMap;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::Stream;
use timely::dataflow::channels::pact::{Exchange, Pipeline};
use timely::dataflow::operators::generic::OutputBuilder;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;
use timely::dataflow::operators::generic::operator::Operator;
use timely::dataflow::operators::{Capability, ConnectLoop, Enter};

type Record = (u64, u64, Vec<u8>);

/// Questions with `rounds` times `requests` answers.
pub(crate) fn floor<'scope>(
    inner: timely::dataflow::Scope<'scope, LoopTime>,
    questions: Stream<'scope, u64, Vec<u64>>,
    replies: Stream<'scope, LoopTime, Vec<Record>>,
    handle: timely::dataflow::operators::core::feedback::Handle<'scope, LoopTime, Vec<Record>>,
    credits: &Credits,
    load: Load,
) -> Stream<'scope, LoopTime, Vec<u64>> {
    let mut builder = OperatorBuilder::new("ask".to_owned(), inner);
    let mut questions = builder.new_input(questions.enter(inner), Pipeline);
    let mut replies = builder.new_input(replies, Exchange::new(|record: &Record| record.1));
    let (asks, ask_stream) = builder.new_output();
    let (ends, end_stream) = builder.new_output();
    let mut asks = OutputBuilder::<_, CapacityContainerBuilder<Vec<Record>>>::from(asks);
    let mut ends = OutputBuilder::<_, CapacityContainerBuilder<Vec<u64>>>::from(ends);
    let (worker, credits) = (inner.index() as u64, credits.clone());
    builder.build(move |capabilities| {
        drop(capabilities);
        let mut open: HashMap<u64, (Capability<LoopTime>, Capability<LoopTime>, u32, u32)> = HashMap::new();
        move |_| {
            let mut ready = Vec::new();
            questions.for_each(|capability, batch| {
                let time = capability.stamp().iter().next().cloned().unwrap_or_default();
                for question in batch.drain(..) {
                    open.insert(question, (capability.delayed(&time, 0), capability.delayed(&time, 1), 0, 0));
                    ready.push(question);
                }
            });
            replies.for_each(|_, batch| {
                for (question, _, _) in batch.drain(..) {
                    if let Some(state) = open.get_mut(&question) {
                        state.2 += 1;
                        if state.2 == load.requests {
                            ready.push(question);
                        }
                    }
                }
            });
            let (mut asks, mut ends, mut finished) = (asks.activate(), ends.activate(), 0);
            for question in ready {
                let Some((ask, end, answered, round)) = open.get_mut(&question) else { continue };
                if *round == load.rounds {
                    ends.session(end).give(question);
                    open.remove(&question);
                    finished += 1;
                    continue;
                }
                (*answered, *round) = (0, *round + 1);
                let records = (0..load.requests).map(|_| (question, worker, vec![7u8; load.payload]));
                asks.session(ask).give_iterator(records);
            }
            credits.give_back(finished);
        }
    });
    let route = Exchange::new(|record: &Record| mix(record.0));
    ask_stream
        .unary::<CapacityContainerBuilder<Vec<Record>>, _, _, _>(route, "answer", |_, _| {
            move |input, output| {
                input.for_each(|capability, batch| output.session(&capability).give_container(batch));
            }
        })
        .connect_loop(handle);
    end_stream
}
