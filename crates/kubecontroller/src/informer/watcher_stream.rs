//! [`ListWatch`] over a stream of `kube::runtime::watcher`.

use std::{fmt, sync::Arc};

use futures_util::{
    Stream, StreamExt,
    stream::{self, BoxStream},
};
use kube::runtime::watcher;
use tokio::sync::Mutex;

use super::list_watch::{ListWatch, ListWatchError, ListWatchStart, WatchEvent};

/// A stream of `kube::runtime::watcher` as a [`ListWatch`], for programs that have such a stream already or wrap it in layers.
///
/// The stream relists and rewatches on its own. After each error the informer waits for its backoff before it polls again.
pub struct WatcherStream<K> {
    stream: Arc<Mutex<WatcherEvents<K>>>,
}

type WatcherEvents<K> = BoxStream<'static, watcher::Result<watcher::Event<K>>>;

// --- WatcherStream ---

impl<K> WatcherStream<K> {
    /// Wraps a watcher stream.
    pub fn new(stream: impl Stream<Item = watcher::Result<watcher::Event<K>>> + Send + 'static) -> Self {
        WatcherStream {
            stream: Arc::new(Mutex::new(stream.boxed())),
        }
    }
}

impl<K> fmt::Debug for WatcherStream<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatcherStream").finish_non_exhaustive()
    }
}

impl<K: Send + Sync + 'static> ListWatch<K> for WatcherStream<K> {
    fn open(&mut self, _: ListWatchStart) -> BoxStream<'static, Result<WatchEvent<K>, ListWatchError>> {
        let stream = Arc::clone(&self.stream);
        stream::unfold(stream, |stream| async move {
            let next = stream.lock().await.next().await;
            let event = match next {
                Some(Ok(event)) => Ok(event.into()),
                Some(Err(error)) => Err(ListWatchError::Failed(error.to_string())),
                None => Err(ListWatchError::Ended),
            };
            Some((event, stream))
        })
        .boxed()
    }
}

impl<K> From<watcher::Event<K>> for WatchEvent<K> {
    fn from(event: watcher::Event<K>) -> Self {
        match event {
            watcher::Event::Init => WatchEvent::ListStarted,
            watcher::Event::InitApply(object) => WatchEvent::ListItems(vec![Arc::new(object)]),
            watcher::Event::InitDone => WatchEvent::ListComplete {
                version: String::new(),
            },
            watcher::Event::Apply(object) => WatchEvent::Applied(Arc::new(object)),
            watcher::Event::Delete(object) => WatchEvent::Deleted(Arc::new(object)),
        }
    }
}
