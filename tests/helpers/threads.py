"""Threads that do the same work at once."""

import threading


def at_once(count, work):
    """Run work(number) in so many threads, which start together; their results in order."""
    barrier, results, errors = threading.Barrier(count), [None] * count, []

    def run(number):
        try:
            barrier.wait(60)
            results[number] = work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results
