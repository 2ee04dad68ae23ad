//! Property test: the state stays consistent whatever the handlers return.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Copy, Debug)]
enum ScriptedResult {
    Done,
    NotYet,
    Retry,
    Fatal,
    Panic,
    Jump(usize),
}

#[derive(Clone, Debug)]
enum HandlerTree {
    Leaf(Vec<ScriptedResult>),
    Serial(Vec<HandlerTree>),
    Parallel(Vec<HandlerTree>),
}

const PHASES: [&str; 3] = ["A", "B", "C"];

fn scripted_result() -> impl Strategy<Value = ScriptedResult> {
    prop_oneof![
        4 => Just(ScriptedResult::Done),
        2 => Just(ScriptedResult::NotYet),
        2 => Just(ScriptedResult::Retry),
        1 => Just(ScriptedResult::Fatal),
        1 => Just(ScriptedResult::Panic),
        1 => (0..3_usize).prop_map(ScriptedResult::Jump),
    ]
}

fn tree() -> impl Strategy<Value = HandlerTree> {
    let leaf = prop::collection::vec(scripted_result(), 0..4).prop_map(HandlerTree::Leaf);
    leaf.prop_recursive(3, 12, 4, |inner| {
        let some = prop::collection::vec(inner, 0..4);
        prop_oneof![
            some.clone().prop_map(HandlerTree::Serial),
            some.prop_map(HandlerTree::Parallel)
        ]
    })
}

fn handler(tree: &HandlerTree, path: &str, log: &CallLog) -> PhaseHandler<Migration> {
    let below = |children: &[HandlerTree]| {
        let named = children.iter().enumerate().map(|(at, child)| {
            let name = at.to_string();
            handler(child, &format!("{path}/{name}"), log).named(name)
        });
        named.collect::<Vec<_>>()
    };
    match tree {
        HandlerTree::Serial(children) => serial(below(children)),
        HandlerTree::Parallel(children) => parallel(below(children)),
        HandlerTree::Leaf(results) => {
            let log = log.clone();
            let path = path.to_owned();
            let results = Mutex::new(VecDeque::from(results.clone()));
            function(move |_: HandlerContext<Migration>| {
                log.add(path.clone());
                let result = results.lock().pop_front().unwrap_or(ScriptedResult::Done);
                async move {
                    tokio::task::yield_now().await;
                    match result {
                        ScriptedResult::Done => done(),
                        ScriptedResult::NotYet => not_yet(),
                        ScriptedResult::Retry => retry(),
                        ScriptedResult::Fatal => fatal(),
                        ScriptedResult::Panic => panic!("quietly"),
                        ScriptedResult::Jump(to) => Ok(Step::done().next(PHASES[to])),
                    }
                }
            })
        }
    }
}

/// The paths of the finished leaves.
fn ended(tree: &HandlerTree, state: &HandlerState, path: &str) -> Vec<String> {
    match tree {
        HandlerTree::Leaf(_) => {
            if state.completion().is_end() {
                vec![path.to_owned()]
            } else {
                Vec::new()
            }
        }
        HandlerTree::Serial(children) | HandlerTree::Parallel(children) => {
            let below = children
                .iter()
                .enumerate()
                .filter_map(|(at, child)| Some((at, child, state.state.get(&at.to_string())?)));
            below
                .flat_map(|(at, child, state)| ended(child, state, &format!("{path}/{at}")))
                .collect()
        }
    }
}

fn assert_consistent(tree: &HandlerTree, state: &HandlerState) {
    assert!(
        !state.completion().is_end() || state.start_time.is_some() && state.end_time >= state.start_time,
        "{state:?}"
    );
    let children = match tree {
        HandlerTree::Leaf(_) => {
            return assert!(
                state.state.is_empty() && state.completion().is_failure() == state.error.is_some()
            );
        }
        HandlerTree::Serial(children) | HandlerTree::Parallel(children) => children,
    };
    let names: Vec<String> = state.state.keys().cloned().collect();
    assert_eq!(
        names,
        (0..children.len()).map(|at| at.to_string()).collect::<Vec<_>>(),
        "mirrors the tree"
    );
    let states: Vec<&HandlerState> = state.state.values().collect();
    if state.start_time.is_none() {
        return assert!(states.iter().all(|child| child.start_time.is_none()));
    }
    for (child, state) in children.iter().zip(&states) {
        assert_consistent(child, state);
    }
    if states.is_empty() {
        return assert!(state.completion() == Completion::Failed && state.error.is_some());
    }
    let completions: Vec<_> = states.iter().map(|child| child.completion()).collect();
    let completion = state.completion();
    assert_eq!(
        completion.is_failure(),
        completions.iter().any(|child| child.is_failure())
    );
    assert_eq!(
        completion.is_end(),
        completions.iter().all(|child| child.is_end()) || completions.contains(&Completion::Failed)
    );
    if matches!(tree, HandlerTree::Serial(_)) {
        let stop = states
            .iter()
            .position(|child| child.completion() != Completion::Succeeded)
            .unwrap_or(states.len());
        assert!(
            states
                .iter()
                .skip(stop + 1)
                .all(|child| child.start_time.is_none()),
            "a child started after a failed predecessor: {state:?}"
        );
    }
}

async fn check(trees: &[HandlerTree]) {
    let log = CallLog::default();
    let environment = environment();
    let mut object = migration();
    let ends = ["B", "C", "Succeeded"];
    let errors = ["FailedA", "FailedB", "FailedC"];
    let mut builder = StateMachine::builder("move").succeeded("Succeeded");
    for (at, tree) in trees.iter().enumerate() {
        let phase = Phase::run(handler(tree, PHASES[at], &log))
            .then(ends[at])
            .on_error(errors[at])
            .tries(4);
        builder = builder.phase(PHASES[at], phase).failed(errors[at]);
    }
    let machine = builder.build_unchecked();
    for _ in 0..60 {
        let before = object.clone();
        let from = machine.phase_of(&before).to_owned();
        let ran = log.all().len();
        let result = pass(&machine, &environment, &mut object).await;
        let Some(at) = PHASES.iter().position(|phase| *phase == from) else {
            assert_eq!(
                serde_json::to_value(&before).unwrap(),
                serde_json::to_value(&object).unwrap()
            );
            assert_eq!((result.then, log.all().len()), (NextPass::Stop, ran));
            return;
        };
        // An object follows the transitions, or the choice of its phase's handler.
        let to = object.phase();
        let jumps = matches!(&trees[at], HandlerTree::Leaf(results) if results.iter().any(|result| matches!(result, ScriptedResult::Jump(to_) if PHASES[*to_] == to)));
        assert!(
            to == from || to == ends[at] || to == errors[at] || jumps,
            "{from} -> {to}"
        );
        assert_eq!(result.then == NextPass::Stop, machine.is_terminal(&object));
        // A phase that jumped to itself has no state yet.
        let Some(state) = object.phases().unwrap().state.get(&from) else {
            continue;
        };
        let given_up = state
            .error
            .as_ref()
            .is_some_and(|error| error.starts_with("gave up"));
        if !given_up {
            assert_consistent(&trees[at], state);
        }
        assert!(
            to == from || state.completion().is_end(),
            "left an unfinished phase: {state:?}"
        );
        let state_before = before
            .phases()
            .and_then(|status| status.state.get(&from))
            .cloned()
            .unwrap_or_default();
        for path in ended(&trees[at], &state_before, &from) {
            assert!(!log.all()[ran..].contains(&path), "{path} was done and ran again");
        }
        if machine.is_failed(&object) {
            assert!(machine.failed_reason(&object).is_some());
        }
    }
    panic!("no end: {object:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn state_stays_consistent_whatever_handlers_return(trees in prop::collection::vec(tree(), 3)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(check(&trees));
    }
}
