//! Options of connect requests (PodExecOptions, ...) as an object, for admission.

use k3_api::{status::Status, strategy::TreeMut};
use serde_json::{Value, json};

use crate::registry::RequestContext;

/// What a client asks of a stream, in the URL. `path` is that which a request is passed on to.
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/get.go getRequestOptions
pub(super) fn options(ctx: &RequestContext, path: &str) -> Result<Value, Status> {
    let part = ctx.target.kind.subresource(ctx.target.part());
    let (kind, version) = part.map_or(("", ""), |part| (&*part.kind, &*part.version));
    let mut options = json!({"kind": kind, "apiVersion": version});
    let query = &ctx.query;
    let name = ctx.target.part();
    if matches!(name, "exec" | "attach") {
        for flag in ["stdin", "stdout", "stderr", "tty"] {
            if query.flag(flag).unwrap_or_default() {
                options.set(flag, true);
            }
        }
        if !query.text("container").is_empty() {
            options.set("container", query.text("container"));
        }
    }
    match name {
        "exec" => options.set("command", query.all("command").collect::<Vec<_>>()),
        "portforward" => {
            let ports = query.ports("ports")?;
            if !ports.is_empty() {
                options.set("ports", ports);
            }
        }
        "proxy" if !path.is_empty() => options.set("path", path),
        _ => {}
    }
    Ok(options)
}
