//! The retired words, and what to write instead.

use crate::vocabulary::Role;

/// A word or phrase that the project does not use.
pub(crate) struct Rule {
    pub(crate) phrase: &'static str,
    pub(crate) instead: &'static str,
    pub(crate) scope: Scope,
    /// Phrases around the word in which it is plain English or a name of the ecosystem: `came from`, `in_place`.
    pub(crate) except: &'static [&'static str],
}

/// Where a word is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Identifiers, strings, documentation and plain comments.
    Everywhere,
    /// Identifiers, strings and documentation: an ordinary word of English, but not a name or a message.
    NamesAndTexts,
    /// Identifiers: an ordinary word of English, but not the name of a thing of ours.
    Names,
}

impl Scope {
    pub(crate) fn covers(self, role: Role) -> bool {
        match self {
            Self::Everywhere => true,
            Self::NamesAndTexts => role != Role::Comment,
            Self::Names => role == Role::Identifier,
        }
    }
}

impl Rule {
    /// Whether the phrase is in `words`, other than as a part of an exception.
    pub(crate) fn matches(&self, words: &[String]) -> bool {
        let excepted: usize = self.except.iter().map(|phrase| count_phrase(words, phrase)).sum();
        count_phrase(words, self.phrase) > excepted
    }
}

fn count_phrase(words: &[String], phrase: &str) -> usize {
    let length = phrase.split(' ').count();
    let is_phrase = |window: &&[String]| {
        window
            .iter()
            .zip(phrase.split(' '))
            .all(|(word, expected)| word == expected)
    };
    words.windows(length).filter(is_phrase).count()
}

const fn everywhere(phrase: &'static str, instead: &'static str) -> Rule {
    Rule {
        phrase,
        instead,
        scope: Scope::Everywhere,
        except: &[],
    }
}

const fn names_and_texts(phrase: &'static str, instead: &'static str) -> Rule {
    Rule {
        phrase,
        instead,
        scope: Scope::NamesAndTexts,
        except: &[],
    }
}

const fn names(phrase: &'static str, instead: &'static str) -> Rule {
    Rule {
        phrase,
        instead,
        scope: Scope::Names,
        except: &[],
    }
}

impl Rule {
    const fn except(self, except: &'static [&'static str]) -> Self {
        Self { except, ..self }
    }
}

const REPORT: &str = "`reported`, `sent`, `notified`, `described` or `returns`";
const LIFECYCLE: &str = "`terminating`, `deleted`, `removed`, `added` or `arrives`";
const CONTROLLER: &str = "`<Kind>Controller` or `<Concern>Controller`";
const DECIDE: &str = "`validate`, `verify`, `decide` or `Decision`";
const NAME_IT: &str = "the name of what it is: a kind, a role, a component";

pub(crate) const RULES: &[Rule] = &[
    everywhere("told", REPORT),
    everywhere("tell of", REPORT),
    everywhere("tells of", REPORT),
    names_and_texts("tell", REPORT),
    names_and_texts("tells", REPORT),
    everywhere("teller", "`EventRecorder` or `StatusReporter`"),
    names_and_texts("says", REPORT),
    everywhere("figures", "`metrics` or `results`"),
    everywhere("folder", "`directory`"),
    everywhere("folders", "`directories`"),
    everywhere("makes no sense", "`invalid` or `usage error`"),
    everywhere("make no sense", "`invalid` or `usage error`"),
    everywhere("anew", "`again` or `restarted`"),
    everywhere("again and again", "`periodically` or `repeatedly`"),
    everywhere("no longer so", "a message with one meaning"),
    everywhere("who may do what", "`authorization` or `permissions`"),
    everywhere("who said so", "`source of the value`"),
    everywhere("believed", "`trusted`"),
    everywhere("nobody", "`no one`, or the component that does not"),
    everywhere("somebody", NAME_IT),
    names_and_texts("whoever", NAME_IT),
    names_and_texts("goes", LIFECYCLE),
    names_and_texts("going", LIFECYCLE),
    names_and_texts("gone", LIFECYCLE),
    names_and_texts("went", LIFECYCLE),
    names_and_texts("come", LIFECYCLE).except(&["come from"]),
    names_and_texts("comes", LIFECYCLE).except(&["comes from"]),
    names_and_texts("came", LIFECYCLE).except(&["came from"]),
    names_and_texts("trouble", "`Error` with context"),
    names_and_texts("troubles", "`errors`"),
    names("fault", "`Error` with context"),
    names("refusal", "`Rejection` or `Error`"),
    names("mistake", "`ValidationError`"),
    names("mistakes", "`ValidationError`"),
    everywhere("judge", DECIDE),
    everywhere("judges", DECIDE),
    everywhere("judged", DECIDE),
    everywhere("verdict", DECIDE),
    names("words", "`labels`, `annotations`, `message` or `arguments`"),
    names("place", "`ObjectRef`, `path`, `address` or `location`").except(&["in place"]),
    names("places", "`ObjectRef`, `path`, `address` or `location`"),
    everywhere("keeper", CONTROLLER),
    everywhere("roller", CONTROLLER),
    everywhere("foreman", CONTROLLER),
    names("maker", CONTROLLER),
    names("filler", CONTROLLER),
    everywhere("strays", CONTROLLER),
    names("hands", "`PodControl`, `VolumeOperations` or `ProbeRunner`"),
    names("family", "`ControllerRefManager` or owner index"),
    names_and_texts("thing", "`Projection` or the name of the kind"),
    names_and_texts("things", "the name of the kinds"),
    everywhere("calm", "`StatusThrottle`"),
    everywhere("news", "`EventMessage`"),
    names("wake", "`EventHandler` or mapper"),
    everywhere("kitchen", "`VolumeContext`"),
    everywhere("recipe", "`MountPlan`"),
    everywhere("recipes", "`MountPlan`s"),
    everywhere("looker", "`PodCache`"),
    names("picture", "`PodSnapshot`"),
    names("course", "`PodWorkerState`"),
    everywhere("annex", "extra endpoints"),
    everywhere("pulse", "idle timeout"),
    everywhere("felt", "in-process transport, or measured"),
    names("inside", "in-process transport"),
    names("presence", "endpoint lease"),
    names("seat", "watch permit"),
    everywhere("outlet", "watch sender"),
    names("door", "`ClientFactory` or interface"),
    everywhere("reel", "replay buffer"),
    names("beat", "progress notifier or heartbeat"),
    names("pump", "watcher"),
    everywhere("dice", "`Rng`"),
    names("social", "inter-pod affinity state"),
    names_and_texts("room", "crate, module or capacity"),
    names_and_texts("house", "architecture"),
];
