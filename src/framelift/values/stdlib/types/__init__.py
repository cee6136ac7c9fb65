"""`types`: mapping proxies and simple namespaces."""
