//! Whatever handlers answer, what the machine keeps makes sense.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Copy, Debug)]
enum Says {
    Done,
    NotYet,
    Retry,
    Fatal,
    Panic,
    Jump(usize),
}

#[derive(Clone, Debug)]
enum Tree {
    Leaf(Vec<Says>),
    Serial(Vec<Tree>),
    Parallel(Vec<Tree>),
}

const PHASES: [&str; 3] = ["A", "B", "C"];

fn says() -> impl Strategy<Value = Says> {
    prop_oneof![
        4 => Just(Says::Done),
        2 => Just(Says::NotYet),
        2 => Just(Says::Retry),
        1 => Just(Says::Fatal),
        1 => Just(Says::Panic),
        1 => (0..3_usize).prop_map(Says::Jump),
    ]
}

fn tree() -> impl Strategy<Value = Tree> {
    let leaf = prop::collection::vec(says(), 0..4).prop_map(Tree::Leaf);
    leaf.prop_recursive(3, 12, 4, |inner| {
        let some = prop::collection::vec(inner, 0..4);
        prop_oneof![some.clone().prop_map(Tree::Serial), some.prop_map(Tree::Parallel)]
    })
}

fn handler(tree: &Tree, path: &str, log: &Log) -> Handler<Migration> {
    let below = |children: &[Tree]| {
        let named = children.iter().enumerate().map(|(at, child)| {
            let name = at.to_string();
            handler(child, &format!("{path}/{name}"), log).named(name)
        });
        named.collect::<Vec<_>>()
    };
    match tree {
        Tree::Serial(children) => serial(below(children)),
        Tree::Parallel(children) => parallel(below(children)),
        Tree::Leaf(says) => {
            let (log, path) = (log.clone(), path.to_owned());
            let says = Mutex::new(VecDeque::from(says.clone()));
            function(move |_: Context<Migration>| {
                log.add(path.clone());
                let says = says.lock().unwrap().pop_front().unwrap_or(Says::Done);
                async move {
                    tokio::task::yield_now().await;
                    match says {
                        Says::Done => done(),
                        Says::NotYet => not_yet(),
                        Says::Retry => retry(),
                        Says::Fatal => fatal(),
                        Says::Panic => panic!("quietly"),
                        Says::Jump(to) => Ok(Step::done().next(PHASES[to])),
                    }
                }
            })
        }
    }
}

/// The leaves that have ended, by path.
fn ended(tree: &Tree, state: &State, path: &str) -> Vec<String> {
    match tree {
        Tree::Leaf(_) => {
            if state.done {
                vec![path.to_owned()]
            } else {
                Vec::new()
            }
        }
        Tree::Serial(children) | Tree::Parallel(children) => {
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

fn sound(tree: &Tree, state: &State) {
    assert!(
        !state.done || state.start_time.is_some() && state.end_time >= state.start_time,
        "{state:?}"
    );
    assert_eq!(state.fatal, state.done && state.failed, "{state:?}");
    let children = match tree {
        Tree::Leaf(_) => return assert!(state.state.is_empty() && state.failed == state.error.is_some()),
        Tree::Serial(children) | Tree::Parallel(children) => children,
    };
    let names: Vec<String> = state.state.keys().cloned().collect();
    assert_eq!(
        names,
        (0..children.len()).map(|at| at.to_string()).collect::<Vec<_>>(),
        "mirrors the tree"
    );
    let states: Vec<&State> = state.state.values().collect();
    if state.start_time.is_none() {
        return assert!(states.iter().all(|child| child.start_time.is_none()));
    }
    for (child, state) in children.iter().zip(&states) {
        sound(child, state);
    }
    if states.is_empty() {
        return assert!(state.fatal && state.error.is_some());
    }
    assert_eq!(state.failed, states.iter().any(|child| child.failed));
    assert_eq!(
        state.done,
        states.iter().all(|child| child.done) || states.iter().any(|child| child.fatal)
    );
    if matches!(tree, Tree::Serial(_)) {
        let stop = states
            .iter()
            .position(|child| !child.done || child.failed)
            .unwrap_or(states.len());
        assert!(
            states
                .iter()
                .skip(stop + 1)
                .all(|child| child.start_time.is_none()),
            "begun after a stop: {state:?}"
        );
    }
}

async fn check(trees: &[Tree]) {
    let (log, environment, mut object) = (Log::default(), environment(), migration());
    let ends = ["B", "C", "Succeeded"];
    let errors = ["FailedA", "FailedB", "FailedC"];
    let mut builder = Machine::builder("move").succeeded("Succeeded");
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
        // Phases move along transitions, or as the handler of the phase says.
        let to = object.phase();
        let jumps = matches!(&trees[at], Tree::Leaf(says) if says.iter().any(|say| matches!(say, Says::Jump(to_) if PHASES[*to_] == to)));
        assert!(
            to == from || to == ends[at] || to == errors[at] || jumps,
            "{from} -> {to}"
        );
        assert_eq!(result.then == NextPass::Stop, machine.is_terminal(&object));
        // Of a phase that jumped to itself nothing is known yet.
        let Some(state) = object.phases().unwrap().state.get(&from) else {
            continue;
        };
        let given_up = state
            .error
            .as_ref()
            .is_some_and(|error| error.starts_with("gave up"));
        if !given_up {
            sound(&trees[at], state);
        }
        assert!(to == from || state.done, "left undone: {state:?}");
        let known = before
            .phases()
            .and_then(|status| status.state.get(&from))
            .cloned()
            .unwrap_or_default();
        for path in ended(&trees[at], &known, &from) {
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
    fn no_answer_of_a_handler_makes_a_machine_forget_itself(trees in prop::collection::vec(tree(), 3)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(check(&trees));
    }
}
