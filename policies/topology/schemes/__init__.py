"""Other ways to say where Pods belong: annotations and fields of Kueue, JobSet, LeaderWorkerSet, Grove and KAI."""
