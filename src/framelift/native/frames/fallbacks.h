/* Calls that Python runs instead of an entry: who is told why, and what becomes of a graph that raised. */
#ifndef FRAMELIFT_FALLBACKS_H
#define FRAMELIFT_FALLBACKS_H

#include "common.h"

/* Ids of framelift/fallbacks.py: the reasons that only this code knows. */
#define FALLBACK_DISABLED          "FL0501"
#define FALLBACK_STANCE            "FL0502" /* that forces Python */
#define FALLBACK_WATCHED           "FL0503"
#define FALLBACK_COLLECTED         "FL0607"
#define FALLBACK_CHANGED_MEANWHILE "FL0608"

/* Says that Python is about to run a call of the function. False: an exception is set (an interrupt), do not run it. */
bool tell_fallback(ThreadData *thread, const char *id, PyObject *function);

/* The same where the program asked for Python. Such calls are to cost as little as if nothing had been lifted: they are
 * counted here, and told once for each lifted callable, which notes that in `told`. */
typedef enum { DISABLED, STANCE, NREQUESTS } Request;
bool count_request(ThreadData *thread, Request request, PyObject *function, unsigned *told);

/* A graph raised, and what it did is undone: residual code, or a direct call, notes who judges that before it returns
 * rerun_marker. Whoever gets the marker takes the failure (NULL: nobody judges), has Python run, and settles it. False:
 * there is no memory. */
bool note_failure(ThreadData *thread, PyObject *judge, PyObject *error);
PyObject *take_failure(ThreadData *thread);

/* If Python raised as well, that was the program's own error. Else the judge is asked what it was, as
 * judge.python_succeeded(entry, error): its answer is ignored, unless it is an exception; then that is raised. Takes
 * over the failure and the result, which may be NULL; the entry is borrowed. */
PyObject *settle_failure(ThreadData *thread, PyObject *failure, PyObject *entry, PyObject *result);

#endif
