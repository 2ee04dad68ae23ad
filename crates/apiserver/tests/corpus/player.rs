//! Plays a file of the corpus, and reports or rewrites the answers that differ.

use std::{collections::HashMap, env, fs, ops::Range, path::Path, time::Duration};

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;
use k3_api::decode::yaml_to_json;
use k3_apiserver::User;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::{
    expectation::{differences, matches_text, with_placeholders},
    script::{self, ExpectedAnswer, Step},
    server::{PATIENCE, TestResponse, TestServer, Watch},
};

/// Set to rewrite the expected answers that differ.
const UPDATE: &str = "K3_CORPUS_UPDATE";

/// A file that is being played.
struct Player {
    server: TestServer,
    /// What steps have saved.
    variables: HashMap<String, String>,
    watches: HashMap<String, Watch>,
}

/// Plays a file; panics with every difference.
pub(crate) fn play_file(path: &Path) {
    let (text, steps) = script::read(path);
    assert!(!steps.is_empty(), "{}: no requests", path.display());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let failures = runtime.block_on(play(&steps));
    runtime.shutdown_background();
    if failures.is_empty() {
        return;
    }
    if env::var_os(UPDATE).is_some() {
        fs::write(path, rewritten(&text, &failures)).unwrap();
    }
    let name = path.file_name().unwrap().display();
    let reports = failures.iter().map(|failure| failure.report(&name.to_string()));
    panic!(
        "{} of {} answers differ\n{}",
        failures.len(),
        steps.len(),
        reports.collect::<String>()
    );
}

/// A step whose answer differs.
struct Failure {
    title: String,
    line: usize,
    differences: Vec<String>,
    answer: TestResponse,
    answer_lines: Range<usize>,
}

// --- Failure ---

impl Failure {
    fn report(&self, file: &str) -> String {
        let mut lines = vec![format!("\n{file}:{}: {}", self.line, self.title)];
        lines.extend(
            self.differences
                .iter()
                .map(|difference| format!("    {difference}")),
        );
        if self.answer.status >= 300 {
            lines.push(format!("    answer: {}", self.answer.body));
        }
        lines.join("\n") + "\n"
    }

    /// The answer as a file can have it: JSON is YAML.
    fn answer_text(&self) -> String {
        let body = with_placeholders(&self.answer.body);
        format!("HTTP {}\n\n{body:#}", self.answer.status)
    }
}

/// The text of a file with the answers that were given.
fn rewritten(text: &str, failures: &[Failure]) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for failure in failures.iter().rev() {
        let answer = failure.answer_text();
        lines.splice(failure.answer_lines.clone(), answer.lines().map(str::to_owned));
    }
    lines.join("\n") + "\n"
}

async fn play(steps: &[Step]) -> Vec<Failure> {
    let mut player = Player {
        server: TestServer::start().await,
        variables: HashMap::new(),
        watches: HashMap::new(),
    };
    let mut failures = Vec::new();
    for step in steps {
        let (answer, differences) = player.step_until_expected(step).await;
        if !differences.is_empty() {
            failures.push(Failure {
                title: step.title.clone(),
                line: step.line,
                differences,
                answer,
                answer_lines: step.answer_lines.clone(),
            });
        }
    }
    failures
}

// --- Player ---

impl Player {
    /// A step, repeated while its answer differs if it has `Retry: true`.
    async fn step_until_expected(&mut self, step: &Step) -> (TestResponse, Vec<String>) {
        let end = Instant::now() + PATIENCE;
        let repeats = step
            .headers
            .iter()
            .any(|(name, value)| name == "Retry" && value == "true");
        loop {
            let answer = self.answer(step).await;
            let differences = match &step.expected {
                Some(expected) => self.check(expected, &answer),
                None => vec!["no expected answer".to_owned()],
            };
            if differences.is_empty() || !repeats || Instant::now() > end {
                return (answer, differences);
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    async fn answer(&mut self, step: &Step) -> TestResponse {
        let user = user(step);
        match step.method.as_str() {
            "WATCH" => {
                let (name, path) = step.target.split_once(' ').expect("WATCH has a name and a path");
                let request = self.request(step, Method::GET, path);
                match self.server.watch(user, request).await {
                    Ok(watch) => {
                        self.watches.insert(name.to_owned(), watch);
                        TestResponse::of_watch(Value::Null)
                    }
                    Err(answer) => answer,
                }
            }
            "EVENTS" => self.events(step).await,
            method => {
                let method = method.parse().unwrap();
                let request = self.request(step, method, &step.target);
                self.server.send(user, request).await
            }
        }
    }

    /// As many events of a watch as are expected.
    async fn events(&mut self, step: &Step) -> TestResponse {
        let watch = self.watches.get_mut(&step.target).expect("no such watch");
        let expected = step.expected.as_ref().and_then(|expected| expected.body.as_ref());
        let count = expected.and_then(Value::as_array).map_or(1, Vec::len);
        let mut events = Vec::new();
        while events.len() < count
            && let Some(event) = watch.next().await
        {
            events.push(event);
        }
        TestResponse::of_watch(Value::Array(events))
    }

    fn request(&self, step: &Step, method: Method, path: &str) -> Request<Full<Bytes>> {
        let mut request = Request::builder()
            .method(method)
            .uri(self.with_variables(path).replace(' ', "%20"));
        let mut accepts = false;
        let mut media_type = None;
        for (name, value) in &step.headers {
            if name == "User" || name == "Retry" {
                continue;
            }
            accepts |= name.eq_ignore_ascii_case("Accept");
            if name.eq_ignore_ascii_case("Content-Type") {
                media_type = Some(value.clone());
            }
            request = request.header(name, self.with_variables(value));
        }
        if !accepts {
            request = request.header("Accept", "application/json");
        }
        let body = self.with_variables(&step.body);
        if media_type.is_none() && !body.is_empty() {
            request = request.header("Content-Type", "application/json");
        }
        let body = to_send(body, media_type.as_deref());
        request.body(Full::from(body)).unwrap()
    }

    /// Where an answer differs; what it is asked for is saved.
    fn check(&mut self, expected: &ExpectedAnswer, answer: &TestResponse) -> Vec<String> {
        let mut found = Vec::new();
        if expected.status != answer.status {
            found.push(format!(
                "expected status {}, but it is {}",
                expected.status, answer.status
            ));
        }
        for (name, value) in &expected.headers {
            if name == "Save" {
                let (variable, path) = value.split_once(' ').expect("Save has a name and a path");
                match lookup(&answer.body, path) {
                    Some(value) => {
                        self.variables.insert(variable.to_owned(), value);
                    }
                    None => found.push(format!("no {path} to save")),
                }
                continue;
            }
            let value = self.with_variables(value);
            let actual: Vec<_> = answer
                .headers
                .get_all(name)
                .iter()
                .map(|value| value.to_str().unwrap())
                .collect();
            let holds = match value.as_str() {
                "<absent>" => actual.is_empty(),
                value => actual.iter().any(|actual| matches_text(value, actual)),
            };
            if !holds {
                found.push(format!("header {name}: expected {value}, but it is {actual:?}"));
            }
        }
        if let Some(body) = &expected.body {
            let body = self.value_with_variables(body);
            found.extend(differences(&body, &answer.body, expected.exactness));
        }
        found
    }

    /// A text with `${name}` replaced by what was saved, and `${repeat:text:count}` by that many.
    fn with_variables(&self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            let end = variable_end(after);
            let name = &after[..end];
            out.push_str(before);
            if let Some((text, count)) = repeated(name) {
                out.push_str(&text.repeat(count));
            } else {
                let value = self.variables.get(name);
                out.push_str(value.unwrap_or_else(|| panic!("no step has saved {name}")));
            }
            rest = &after[end + 1..];
        }
        out + rest
    }

    fn value_with_variables(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::from(self.with_variables(text)),
            Value::Array(items) => items.iter().map(|item| self.value_with_variables(item)).collect(),
            Value::Object(fields) => fields
                .iter()
                .map(|(name, value)| (self.with_variables(name), self.value_with_variables(value)))
                .collect(),
            _ => value.clone(),
        }
    }
}

/// Where a variable ends; the text of a repeated one may have braces.
fn variable_end(text: &str) -> usize {
    let mut ends = text.match_indices('}').map(|(end, _)| end);
    ends.find(|end| !text.starts_with("repeat:") || repeated(&text[..*end]).is_some())
        .expect("a variable ends with }")
}

/// The text and the count of `repeat:TEXT:COUNT`.
fn repeated(name: &str) -> Option<(&str, usize)> {
    let (text, count) = name.strip_prefix("repeat:")?.rsplit_once(':')?;
    Some((text, count.parse().ok()?))
}

/// A body as it is sent: as written if it is JSON or its media type is given, else YAML as JSON.
fn to_send(body: String, media_type: Option<&str>) -> String {
    let is_json = body.starts_with(['{', '[', '"']);
    let is_other = media_type.is_some_and(|media_type| !media_type.contains("json"));
    if body.is_empty() || is_json || is_other {
        return body;
    }
    let decoded = yaml_to_json(body.as_bytes()).unwrap_or_else(|error| panic!("{error:?}: {body}"));
    decoded.value.to_string()
}

/// The user of a step: `User: NAME GROUP...`, else an administrator.
fn user(step: &Step) -> User {
    let names = step.headers.iter().find(|(header, _)| header == "User");
    let names = names.map_or("admin system:masters", |(_, names)| names.as_str());
    let mut names = names.split_whitespace();
    let name = names.next().unwrap().to_owned();
    let mut groups: Vec<_> = names.map(str::to_owned).collect();
    groups.push("system:authenticated".to_owned());
    User {
        name,
        groups,
        ..User::default()
    }
}

/// A field of an answer as text: `metadata.uid`, `items.0.metadata.name`.
fn lookup(value: &Value, path: &str) -> Option<String> {
    let found = path.split('.').try_fold(value, |value, name| match value {
        Value::Array(items) => items.get(name.parse::<usize>().ok()?),
        _ => value.get(name),
    })?;
    Some(found.as_str().map_or_else(|| found.to_string(), str::to_owned))
}

// --- TestResponse ---

impl TestResponse {
    fn of_watch(body: Value) -> Self {
        TestResponse {
            status: 200,
            headers: http::HeaderMap::new(),
            body,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn failures(file: &str) -> Vec<String> {
        let steps = script::parse(file).unwrap();
        let failures = play(&steps).await;
        failures.iter().map(|failure| failure.report("f")).collect()
    }

    #[test]
    fn repeated_texts_may_have_braces_and_colons() {
        let text = "repeat:{\"a\":\"b\"},:3}rest}";
        let end = variable_end(text);
        assert_eq!(repeated(&text[..end]), Some(("{\"a\":\"b\"},", 3)));
        assert_eq!(variable_end("uid}}"), 3);
    }

    /// A player that accepts everything would let every topic pass.
    #[tokio::test]
    async fn wrong_answers_are_reported() {
        let wrong = failures(
            "### status\nGET /version\nHTTP 404\n
             ### body\nGET /version\nHTTP 200\n\nmajor: \"2\"\n
             ### header\nGET /version\nHTTP 200\nContent-Type: text/plain\n
             ### right\nGET /version\nHTTP 200\n\nmajor: \"1\"\n"
                .replace("\n             ", "\n")
                .as_str(),
        )
        .await;
        assert_eq!(wrong.len(), 3, "{wrong:?}");
        assert!(
            wrong[0].contains("f:1: status\n    expected status 404, but it is 200"),
            "{}",
            wrong[0]
        );
        assert!(
            wrong[1].contains(".major: expected \"2\", but it is \"1\""),
            "{}",
            wrong[1]
        );
        assert!(wrong[2].contains("header Content-Type"), "{}", wrong[2]);
    }

    #[tokio::test]
    async fn an_update_replaces_only_answers_that_differ() {
        let file = "### right\nGET /healthz\nHTTP 200\n\nok\n\n### wrong\nGET /livez\nHTTP 500\n\nbad\n";
        let steps = script::parse(file).unwrap();
        let updated = rewritten(file, &play(&steps).await);
        assert_eq!(updated, file.replace("500\n\nbad", "200\n\n\"ok\""));
    }
}
