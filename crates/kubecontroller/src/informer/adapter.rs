//! A stream of `kube`'s watcher as a source.

use std::{fmt, sync::Arc};

use futures_util::{
    Stream, StreamExt,
    stream::{self, BoxStream},
};
use kube::runtime::watcher;
use tokio::sync::Mutex;

use super::list_watch::{ListWatch, ListWatchError, ListWatchStart, WatchEvent};

/// What `kube::runtime::watcher` tells, as a source: for those who have such a stream already, or layers around it.
///
/// Such a stream lists and watches again on its own; the informer waits after each of its errors before it goes on with it.
pub struct WatcherStream<K> {
    stream: Arc<Mutex<Watcher<K>>>,
}

type Watcher<K> = BoxStream<'static, watcher::Result<watcher::Event<K>>>;

// --- WatcherStream ---

impl<K> WatcherStream<K> {
    /// Takes a stream.
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
            let told = stream.lock().await.next().await;
            let event = match told {
                Some(Ok(event)) => Ok(event.into()),
                Some(Err(error)) => Err(ListWatchError::Broken(error.to_string())),
                None => Err(ListWatchError::Over),
            };
            Some((event, stream))
        })
        .boxed()
    }
}

impl<K> From<watcher::Event<K>> for WatchEvent<K> {
    fn from(event: watcher::Event<K>) -> Self {
        match event {
            watcher::Event::Init => WatchEvent::Restarted,
            watcher::Event::InitApply(object) => WatchEvent::Listed(vec![Arc::new(object)]),
            watcher::Event::InitDone => WatchEvent::Complete {
                version: String::new(),
            },
            watcher::Event::Apply(object) => WatchEvent::Applied(Arc::new(object)),
            watcher::Event::Delete(object) => WatchEvent::Deleted(Arc::new(object)),
        }
    }
}
